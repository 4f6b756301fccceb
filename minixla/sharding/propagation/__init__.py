"""Propagation: shardings of all values, derived from the given ones.

Source: Shardy (openxla/shardy, `shardy/dialect/sdy/transforms/propagation`); results are equal.
"""

from minixla.collecting import collection_paused
from minixla.sharding.dead_steps import remove_dead_steps
from minixla.sharding.program import Program
from minixla.sharding.propagation.driver import Driver
from minixla.sharding.propagation.groups import separate, share
from minixla.sharding.propagation.network import Network
from minixla.sharding.propagation.priorities import by_operation, by_user, directions
from minixla.sharding.propagation.strategies import aggressive, basic

_STRATEGIES = {
    "basic": (basic,),
    "aggressive": (aggressive,),
    "basic-then-aggressive": (basic, aggressive),
}


def _propagate(
    program: Program,
    strategy: str,
    conservative: bool,
    by_operations: bool = False,
    by_users: bool = False,
) -> None:
    with collection_paused():
        remove_dead_steps(program)
        network = Network(program, conservative, by_operations)
        if separate(program, network.groups):
            network = Network(program, conservative, by_operations)
        share(network)
        driver = Driver(network, _STRATEGIES[strategy], conservative)
        once = by_operation if by_operations else lambda driver: driver.run(directions)
        if by_users:
            by_user(driver, once)
        else:
            once(driver)
        driver.end()
        network.write()
        drop_sharding_rules(program)


def drop_sharding_rules(program: Program) -> None:
    """Remove the sharding rules that users did not state (SDY: sdy-drop-sharding-rules)."""
    for step in program.walk():
        if step.stated_rule is not None and not step.stated_rule.is_custom:
            step.stated_rule = None


def basic_propagate(program: Program, *, conservative_propagation: bool = False) -> None:
    """Propagate axes on which all tensors of an operation agree (SDY: sdy-basic-propagate).

    Args: those of `user_priority_propagate`.
    """
    _propagate(program, "basic", conservative_propagation)


def aggressive_propagate(
    program: Program,
    *,
    propagation_strategy: str = "aggressive",
    conservative_propagation: bool = False,
) -> None:
    """Propagate axes that each tensor of an operation can take (SDY: sdy-aggressive-propagate).

    Args: those of `user_priority_propagate`.
    """
    _propagate(program, propagation_strategy, conservative_propagation)


def operation_priority_propagate(
    program: Program,
    *,
    propagation_strategy: str = "aggressive",
    conservative_propagation: bool = False,
    run_op_priority_propagation: bool = True,
) -> None:
    """Propagate through operations that pass values on first (SDY: sdy-op-priority-propagate).

    Args: those of `user_priority_propagate`.
    """
    options = propagation_strategy, conservative_propagation, run_op_priority_propagation
    _propagate(program, *options)


def user_priority_propagate(
    program: Program,
    *,
    propagation_strategy: str = "aggressive",
    conservative_propagation: bool = False,
    run_op_priority_propagation: bool = True,
) -> None:
    """Propagate in the order of users' priorities (SDY: sdy-user-priority-propagate).

    Args:
        program: the program, which is changed.
        propagation_strategy: `basic`, `aggressive` or `basic-then-aggressive`.
        conservative_propagation: whether parts of axes stay where they are.
        run_op_priority_propagation: whether shardings pass through operations in the order of
            their priorities, for each user priority again.
    """
    options = propagation_strategy, conservative_propagation, run_op_priority_propagation
    _propagate(program, *options, by_users=True)
