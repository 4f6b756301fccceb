"""The pipelines of passes that make propagated programs final, and that do all."""

from minixla.sharding.dead_steps import remove_dead_steps
from minixla.sharding.passes.calls import (
    flatten_call_graph,
    order_callers_first,
    remove_dead_functions,
    turn_calls_into_named_computations,
)
from minixla.sharding.passes.explicit_reshards import insert_explicit_reshards
from minixla.sharding.passes.export import (
    close_shardings,
    merge_constants,
    remove_sharding_groups,
    sink_data_flow_edges,
    turn_constraints_into_reshards,
)
from minixla.sharding.passes.function_calls import (
    export_named_computations,
    fit_calls,
    unflatten_call_graph,
)
from minixla.sharding.passes.function_edges import (
    add_function_edges,
    propagate_to_function_results,
    sink_function_edges,
)
from minixla.sharding.passes.input_output_shardings import keep_dividing_axes, remove_sub_axes
from minixla.sharding.passes.pipeline import import_program
from minixla.sharding.passes.sharding_constraints import apply_sharding_constraints
from minixla.sharding.passes.sharding_groups import import_sharding_groups
from minixla.sharding.program import Program
from minixla.sharding.propagation import drop_sharding_rules, user_priority_propagate


def export_program(program: Program) -> None:
    """Makes a propagated program final (SDY: sdy-export-pipeline)."""
    merge_constants(program)
    sink_data_flow_edges(program)
    remove_sharding_groups(program)
    turn_constraints_into_reshards(program)
    keep_dividing_axes(program)
    remove_sub_axes(program)
    close_shardings(program)
    insert_explicit_reshards(program)
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
    add_function_edges(program)
    order_callers_first(program)
    user_priority_propagate(program)
    propagate_to_function_results(program)
    sink_function_edges(program)
    remove_dead_functions(program)
    fit_calls(program)


def _propagate_through_computations(program: Program) -> None:
    flatten_call_graph(program)
    remove_dead_functions(program)
    turn_calls_into_named_computations(program)
    remove_dead_functions(program)
    apply_sharding_constraints(program)
    import_sharding_groups(program)
    order_callers_first(program)
    user_priority_propagate(program)
    export_named_computations(program)
    propagate_to_function_results(program)
    unflatten_call_graph(program)
    remove_dead_functions(program)
    fit_calls(program)
