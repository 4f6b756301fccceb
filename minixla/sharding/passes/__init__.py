"""Shardy's passes on programs (`sharding/program.py`), one file for each pass, and pipelines.

`PASSES` maps their names to functions; `mx.sharding.run_pass` runs one on a text or a graph.
"""

from collections.abc import Callable

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
from minixla.sharding.propagation import (
    aggressive_propagate,
    basic_propagate,
    drop_sharding_rules,
    operation_priority_propagate,
    user_priority_propagate,
)


def import_program(
    program: Program, *, dedup_functions_fully: bool = False, specification: bool = False
) -> None:
    """Prepare a program for propagation (SDY: sdy-import-pipeline).

    Args:
        program: the program, which is changed.
        dedup_functions_fully: whether functions stay as they are, so that constraints are applied
            and groups united now; if not, this happens after calls become named computations.
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
    """Make a propagated program final (SDY: sdy-export-pipeline)."""
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
    """Prepare a program, propagate shardings, and make it final (SDY: sdy-propagation-pipeline).

    Args:
        program: the program, which is changed.
        dedup_functions_fully: whether a function stays one for all its calls; if not, each call has
            a function for its shardings.
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


#: Passes and pipelines by Shardy's names; each changes a program, and takes keyword options.
PASSES: dict[str, Callable[..., None]] = {
    "sdy-import-pipeline": import_program,
    "symbol-dce": calls.remove_dead_functions,
    "sdy-lift-inlined-meshes": meshes.lift_inlined_meshes,
    "sdy-remove-size-one-axes": size_one_axes.remove_size_one_axes,
    "sdy-propagate-sharding-from-func-to-call": calls.copy_shardings_to_calls,
    "sdy-constant-or-scalar-splitter": constants.split_constants,
    "sdy-manual-axes-cleanup": manual_axes.clean_up_manual_axes,
    "sdy-add-data-flow-edges": data_flow_edges.add_data_flow_edges,
    "sdy-apply-sharding-constraints": sharding_constraints.apply_sharding_constraints,
    "sdy-sharding-group-import": sharding_groups.import_sharding_groups,
    "sdy-flatten-call-graph": calls.flatten_call_graph,
    "sdy-import-func-calls": calls.turn_calls_into_named_computations,
    "sdy-pre-order-funcs": calls.order_callers_first,
    "sdy-add-func-data-flow-edges": function_edges.add_function_edges,
    "sdy-basic-propagate": basic_propagate,
    "sdy-aggressive-propagate": aggressive_propagate,
    "sdy-op-priority-propagate": operation_priority_propagate,
    "sdy-user-priority-propagate": user_priority_propagate,
    "sdy-export-named-computations": function_calls.export_named_computations,
    "sdy-propagate-to-func-results": function_edges.propagate_to_function_results,
    "sdy-sink-func-data-flow-edges": function_edges.sink_function_edges,
    "sdy-unflatten-call-graph": function_calls.unflatten_call_graph,
    "sdy-insert-func-call-reshards": function_calls.fit_calls,
    "sdy-constant-or-scalar-merger": export.merge_constants,
    "sdy-sink-data-flow-edges": export.sink_data_flow_edges,
    "sdy-remove-sharding-groups": export.remove_sharding_groups,
    "sdy-sharding-constraint-to-reshard": export.turn_constraints_into_reshards,
    "sdy-update-non-divisible-input-output-shardings": input_output_shardings.keep_dividing_axes,
    "sdy-remove-sub-axes-in-input-output-shardings": input_output_shardings.remove_sub_axes,
    "sdy-close-shardings": export.close_shardings,
    "sdy-insert-explicit-reshards": explicit_reshards.insert_explicit_reshards,
    "sdy-drop-sharding-rules": drop_sharding_rules,
    "sdy-export-pipeline": export_program,
    "sdy-propagation-pipeline": propagate_program,
}
