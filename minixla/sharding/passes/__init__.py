"""Shardy's import passes on programs (`sharding/program.py`), one file a pass.

`PASSES` has them by their names; `mx.sharding.run_pass` runs one on a text or a graph.
"""

from collections.abc import Callable

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
    pipelines,
    sharding_constraints,
    sharding_groups,
    size_one_axes,
)
from minixla.sharding.propagation import (
    aggressive_propagate,
    basic_propagate,
    drop_sharding_rules,
    operation_priority_propagate,
    user_priority_propagate,
)

#: Passes and pipelines by Shardy's names; each changes a program, and takes its options by name.
PASSES: dict[str, Callable[..., None]] = {
    "sdy-import-pipeline": pipelines.import_program,
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
    "sdy-export-pipeline": pipelines.export_program,
    "sdy-propagation-pipeline": pipelines.propagate_program,
}
