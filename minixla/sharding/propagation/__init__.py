"""Propagation: what the layout of every value follows from those that are given.

Source: Shardy (openxla/shardy, `shardy/dialect/sdy/transforms/propagation`), whose results it gives.
"""

from collections.abc import Callable

from minixla.sharding.operations import ShardingGroup
from minixla.sharding.program import Program
from minixla.sharding.propagation.driver import Driver
from minixla.sharding.propagation.groups import share
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
    network = Network(program)
    share(network)
    driver = Driver(network, _STRATEGIES[strategy], conservative)
    run(driver)
    network.write()


def _plainly(driver: Driver) -> None:
    driver.run(directions)


def basic_propagate(program: Program, conservative: bool = False) -> None:
    """Propagates what all tensors of an operation agree on (`sdy-basic-propagate`)."""
    _propagate(program, _plainly, "basic", conservative)


def aggressive_propagate(
    program: Program, strategy: str = "aggressive", conservative: bool = False
) -> None:
    """Propagates what each tensor of an operation can take (`sdy-aggressive-propagate`).

    Args:
        program: it is changed.
        strategy: `basic`, `aggressive` or `basic-then-aggressive`.
        conservative: whether parts of axes stay where they are.
    """
    _propagate(program, _plainly, strategy, conservative)


def operation_priority_propagate(
    program: Program,
    strategy: str = "aggressive",
    conservative: bool = False,
    by_operations: bool = True,
) -> None:
    """Propagates by operations that pass values on first (`sdy-op-priority-propagate`)."""
    _propagate(program, by_operation if by_operations else _plainly, strategy, conservative)


def user_priority_propagate(
    program: Program,
    strategy: str = "aggressive",
    conservative: bool = False,
    by_operations: bool = True,
) -> None:
    """Propagates in the order of users' priorities (`sdy-user-priority-propagate`)."""
    _propagate(program, by_user, strategy, conservative)
