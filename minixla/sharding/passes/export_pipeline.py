"""The pipelines of passes that make propagated programs final, and that do all."""

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
    remove_dead_steps,
    remove_sharding_groups,
    sink_data_flow_edges,
    turn_constraints_into_reshards,
)
from minixla.sharding.passes.function_calls import export_calls
from minixla.sharding.passes.input_output_shardings import keep_dividing_axes, remove_sub_axes
from minixla.sharding.passes.pipeline import import_program
from minixla.sharding.passes.sharding_constraints import apply_sharding_constraints
from minixla.sharding.passes.sharding_groups import import_sharding_groups
from minixla.sharding.program import Program
from minixla.sharding.propagation import user_priority_propagate


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
    remove_dead_steps(program)


def propagate_program(program: Program) -> None:
    """Prepares a program, propagates, and makes it final (SDY: sdy-propagation-pipeline)."""
    import_program(program)
    flatten_call_graph(program)
    remove_dead_functions(program)
    turn_calls_into_named_computations(program)
    remove_dead_functions(program)
    apply_sharding_constraints(program)
    import_sharding_groups(program)
    order_callers_first(program)
    user_priority_propagate(program)
    sink_data_flow_edges(program)
    export_calls(program)
    export_program(program)
