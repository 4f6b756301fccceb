"""The pipeline of passes by which programs are prepared for propagation."""

from minixla.sharding.passes.calls import copy_shardings_to_calls, remove_dead_functions
from minixla.sharding.passes.constants import split_constants
from minixla.sharding.passes.data_flow_edges import add_data_flow_edges
from minixla.sharding.passes.manual_axes import clean_up_manual_axes
from minixla.sharding.passes.meshes import lift_inlined_meshes
from minixla.sharding.passes.sharding_constraints import apply_sharding_constraints
from minixla.sharding.passes.sharding_groups import import_sharding_groups
from minixla.sharding.passes.size_one_axes import remove_size_one_axes
from minixla.sharding.program import Program


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
    remove_dead_functions(program)
    lift_inlined_meshes(program)
    remove_size_one_axes(program)
    copy_shardings_to_calls(program)
    split_constants(program, specification=specification)
    remove_dead_functions(program)
    clean_up_manual_axes(program)
    add_data_flow_edges(program)
    if dedup_functions_fully:
        apply_sharding_constraints(program, specification=specification)
        import_sharding_groups(program)
