"""Propagation: what the layout of every value follows from those that are given.

Source: Shardy (openxla/shardy, `shardy/dialect/sdy/transforms/propagation`), with its results.
"""

from collections.abc import Callable

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
    run: Callable[[Driver], None],
    strategy: str = "aggressive",
    conservative: bool = False,
) -> None:
    separate(program)
    network = Network(program, conservative)
    share(network)
    driver = Driver(network, _STRATEGIES[strategy], conservative)
    run(driver)
    network.write()


def _plainly(driver: Driver) -> None:
    driver.run(directions)


def basic_propagate(program: Program, *, conservative_propagation: bool = False) -> None:
    """Propagates what all tensors of an operation agree on (SDY: sdy-basic-propagate).

    Args:
        program: it is changed.
        conservative_propagation: whether parts of axes stay where they are.
    """
    _propagate(program, _plainly, "basic", conservative_propagation)


def aggressive_propagate(
    program: Program,
    *,
    propagation_strategy: str = "aggressive",
    conservative_propagation: bool = False,
) -> None:
    """Propagates what each tensor of an operation can take (SDY: sdy-aggressive-propagate).

    Args:
        program: it is changed.
        propagation_strategy: `basic`, `aggressive` or `basic-then-aggressive`.
        conservative_propagation: whether parts of axes stay where they are.
    """
    _propagate(program, _plainly, propagation_strategy, conservative_propagation)


def operation_priority_propagate(
    program: Program,
    *,
    propagation_strategy: str = "aggressive",
    conservative_propagation: bool = False,
    run_op_priority_propagation: bool = True,
) -> None:
    """Propagates by operations that pass values on first (SDY: sdy-op-priority-propagate).

    Args:
        program: it is changed.
        propagation_strategy: see `aggressive_propagate`.
        conservative_propagation: whether parts of axes stay where they are.
        run_op_priority_propagation: whether operations have an order.
    """
    run = by_operation if run_op_priority_propagation else _plainly
    _propagate(program, run, propagation_strategy, conservative_propagation)


def user_priority_propagate(
    program: Program,
    *,
    propagation_strategy: str = "aggressive",
    conservative_propagation: bool = False,
    run_op_priority_propagation: bool = True,
) -> None:
    """Propagates in the order of users' priorities (SDY: sdy-user-priority-propagate).

    Args:
        program: it is changed.
        propagation_strategy: see `aggressive_propagate`.
        conservative_propagation: whether parts of axes stay where they are.
        run_op_priority_propagation: whether each priority is a round of all of
            `operation_priority_propagate`.
    """
    once = by_operation if run_op_priority_propagation else _plainly

    def run(driver: Driver) -> None:
        by_user(driver, once)

    _propagate(program, run, propagation_strategy, conservative_propagation)
