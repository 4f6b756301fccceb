"""Shardy's import passes on programs (`sharding/program.py`), one file a pass.

`PASSES` has them by their names; `mx.sharding.run_pass` runs one on a text or a graph.
"""

from collections.abc import Callable

from minixla.sharding.passes.calls import (
    copy_shardings_to_calls,
    flatten_call_graph,
    order_callers_first,
    remove_dead_functions,
    turn_calls_into_named_computations,
)
from minixla.sharding.passes.constants import split_constants
from minixla.sharding.passes.data_flow_edges import add_data_flow_edges
from minixla.sharding.passes.explicit_reshards import insert_explicit_reshards
from minixla.sharding.passes.export import (
    close_shardings,
    merge_constants,
    remove_sharding_groups,
    sink_data_flow_edges,
    turn_constraints_into_reshards,
)
from minixla.sharding.passes.export_pipeline import export_program, propagate_program
from minixla.sharding.passes.input_output_shardings import keep_dividing_axes, remove_sub_axes
from minixla.sharding.passes.manual_axes import clean_up_manual_axes
from minixla.sharding.passes.meshes import lift_inlined_meshes
from minixla.sharding.passes.pipeline import import_program
from minixla.sharding.passes.sharding_constraints import apply_sharding_constraints
from minixla.sharding.passes.sharding_groups import import_sharding_groups
from minixla.sharding.passes.size_one_axes import remove_size_one_axes
from minixla.sharding.propagation import (
    aggressive_propagate,
    basic_propagate,
    operation_priority_propagate,
    user_priority_propagate,
)

#: Passes and pipelines by Shardy's names; each changes a program, and takes its options by name.
PASSES: dict[str, Callable[..., None]] = {
    "sdy-import-pipeline": import_program,
    "symbol-dce": remove_dead_functions,
    "sdy-lift-inlined-meshes": lift_inlined_meshes,
    "sdy-remove-size-one-axes": remove_size_one_axes,
    "sdy-propagate-sharding-from-func-to-call": copy_shardings_to_calls,
    "sdy-constant-or-scalar-splitter": split_constants,
    "sdy-manual-axes-cleanup": clean_up_manual_axes,
    "sdy-add-data-flow-edges": add_data_flow_edges,
    "sdy-apply-sharding-constraints": apply_sharding_constraints,
    "sdy-sharding-group-import": import_sharding_groups,
    "sdy-flatten-call-graph": flatten_call_graph,
    "sdy-import-func-calls": turn_calls_into_named_computations,
    "sdy-pre-order-funcs": order_callers_first,
    "sdy-basic-propagate": basic_propagate,
    "sdy-aggressive-propagate": aggressive_propagate,
    "sdy-op-priority-propagate": operation_priority_propagate,
    "sdy-user-priority-propagate": user_priority_propagate,
    "sdy-constant-or-scalar-merger": merge_constants,
    "sdy-sink-data-flow-edges": sink_data_flow_edges,
    "sdy-remove-sharding-groups": remove_sharding_groups,
    "sdy-sharding-constraint-to-reshard": turn_constraints_into_reshards,
    "sdy-update-non-divisible-input-output-shardings": keep_dividing_axes,
    "sdy-remove-sub-axes-in-input-output-shardings": remove_sub_axes,
    "sdy-close-shardings": close_shardings,
    "sdy-insert-explicit-reshards": insert_explicit_reshards,
    "sdy-export-pipeline": export_program,
    "sdy-propagation-pipeline": propagate_program,
}
