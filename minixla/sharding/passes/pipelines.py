"""Pipelines of passes: they prepare programs for propagation, make them final, and do all."""

from minixla.sharding.dead_steps import remove_dead_steps
from minixla.sharding.passes import (
    calls,
    constants,
    data_flow_edges,
    explicit_reshards,
    export,
    function_calls,
    function_edges,
    input_output_shardings,
    manual_axes,
    meshes,
    sharding_constraints,
    sharding_groups,
    size_one_axes,
)
from minixla.sharding.program import Program
from minixla.sharding.propagation import drop_sharding_rules, user_priority_propagate


def import_program(
    program: Program, *, dedup_functions_fully: bool = False, specification: bool = False
) -> None:
    """Prepares a program for propagation (SDY: sdy-import-pipeline).

    Args:
        program: the program, which is changed.
        dedup_functions_fully: whether functions stay as they are, so that constraints are applied
            and groups united now; else that is done when calls have become named computations.
        specification: see `apply_sharding_constraints` and `split_constants`.
    """
    calls.remove_dead_functions(program)
    meshes.lift_inlined_meshes(program)
    size_one_axes.remove_size_one_axes(program)
    calls.copy_shardings_to_calls(program)
    constants.split_constants(program, specification=specification)
    calls.remove_dead_functions(program)
    manual_axes.clean_up_manual_axes(program)
    data_flow_edges.add_data_flow_edges(program)
    if dedup_functions_fully:
        sharding_constraints.apply_sharding_constraints(program, specification=specification)
        sharding_groups.import_sharding_groups(program)


def export_program(program: Program) -> None:
    """Makes a propagated program final (SDY: sdy-export-pipeline)."""
    export.merge_constants(program)
    export.sink_data_flow_edges(program)
    export.remove_sharding_groups(program)
    export.turn_constraints_into_reshards(program)
    input_output_shardings.keep_dividing_axes(program)
    input_output_shardings.remove_sub_axes(program)
    export.close_shardings(program)
    explicit_reshards.insert_explicit_reshards(program)
    drop_sharding_rules(program)
    remove_dead_steps(program)


def propagate_program(program: Program, *, dedup_functions_fully: bool = False) -> None:
    """Prepares a program, propagates, and makes it final (SDY: sdy-propagation-pipeline).

    Args:
        program: the program, which is changed.
        dedup_functions_fully: whether a function stays one, for all its calls; else each call has
            the function of its layout.
    """
    import_program(program, dedup_functions_fully=dedup_functions_fully)
    if dedup_functions_fully:
        _propagate_through_calls(program)
    else:
        _propagate_through_computations(program)
    export_program(program)


def _propagate_through_calls(program: Program) -> None:
    function_edges.add_function_edges(program)
    calls.order_callers_first(program)
    user_priority_propagate(program)
    function_edges.propagate_to_function_results(program)
    function_edges.sink_function_edges(program)
    calls.remove_dead_functions(program)
    function_calls.fit_calls(program)


def _propagate_through_computations(program: Program) -> None:
    calls.flatten_call_graph(program)
    calls.remove_dead_functions(program)
    calls.turn_calls_into_named_computations(program)
    calls.remove_dead_functions(program)
    sharding_constraints.apply_sharding_constraints(program)
    sharding_groups.import_sharding_groups(program)
    calls.order_callers_first(program)
    user_priority_propagate(program)
    function_calls.export_named_computations(program)
    function_edges.propagate_to_function_results(program)
    function_calls.unflatten_call_graph(program)
    calls.remove_dead_functions(program)
    function_calls.fit_calls(program)
