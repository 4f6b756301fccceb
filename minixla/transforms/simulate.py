"""simulate: run the programs of many processes together, in NumPy."""

from collections.abc import Callable, MutableSequence, Sequence
from functools import partial
from itertools import chain
from typing import Any, TypeVar

import jax

from minixla.core.element_types import F64, canonical_element_type
from minixla.core.errors import check_arguments
from minixla.core.tracebacks import api_boundary
from minixla.reference_evaluator.simulation import Simulation
from minixla.transforms.arguments import checked_function, misfit
from minixla.transforms.evaluation import reference
from minixla.typing import PyTree

Program = Callable[..., PyTree]
Grid = Sequence[Sequence[Any]]
Item = TypeVar("Item")


@api_boundary
def simulate(
    programs: Program | Sequence[Sequence[Program]],
    arguments: Sequence[Sequence[Sequence[PyTree]]],
    *,
    infeed: Sequence[PyTree] = (),
    outfeed: MutableSequence[PyTree] | None = None,
    host: dict[int, list[PyTree]] | None = None,
) -> list[list[PyTree]]:
    """Run the programs of many processes together in NumPy, without devices.

    Each program is evaluated as by `mx.reference`; it may use transformations. Collectives
    exchange values between processes, Send and Recv pass values by channel, and Infeed and Outfeed
    have queues. Runs are deterministic: one process runs at a time, the first that is not waiting.

        mx.simulate(lambda x: ops.cross_replica_sum(x), [[(1.0,)], [(2.0,)]])  # [[3.0], [3.0]]

    Derivatives are taken inside a program, and are those of the sum of all processes' functions. A
    collective's transpose is a collective, so all processes must differentiate the same calls.

    Args:
        programs: a function for each process, as a list of replicas, each a list of partitions; or
            one function for all processes.
        arguments: in this nesting, the tuple of positional arguments (pytrees of arrays) of each.
        infeed: the items of each process's Infeed, arrays or tuples of arrays: one list that is
            copied for every process, or a list for each in the nesting of `arguments`.
        outfeed: a list that is filled with the items of each process's Outfeed: in the nesting of
            `arguments`, a list of arrays and tuples of arrays.
        host: the host's end of channels: RecvToHost takes from the front of the list of its
            channel, and SendToHost appends to the list of its channel.

    Returns:
        The results in the nesting of `arguments`: pytrees of NumPy arrays.

    Raises:
        TransformError: the nesting does not match replicas and partitions.
        DeadlockError: processes wait forever; the message lists what they wait for, and where.
        Exception: the first exception of a program, with a note that names the process.

    Example:
        >>> mx.simulate(mx.ops.cross_replica_sum, [[(np.float32(1),)], [(np.float32(2),)]])
        [[array(3., dtype=float32)], [array(3., dtype=float32)]]
    """
    grid = _checked_grid("arguments", arguments)
    rows, columns = len(grid), len(grid[0])
    if callable(programs):
        programs = [[programs] * columns] * rows
    else:
        _checked_grid("programs", programs, (rows, columns))
    # JAX's 64-bit mode is thread-local, so pass it to the threads of the processes.
    wide = canonical_element_type(F64) is F64

    def run(program: Program, arguments: Sequence[PyTree]) -> PyTree:
        with jax.enable_x64(wide):
            return reference(program)(*arguments)

    pairs = zip(chain.from_iterable(programs), chain.from_iterable(grid), strict=True)
    closed = [
        partial(run, checked_function(program, "simulate"), arguments)
        for program, arguments in pairs
    ]
    is_listed = isinstance(infeed, Sequence)
    check_arguments("simulate", infeed=(infeed, is_listed, "a list of arrays and tuples of arrays"))
    queues: list[Sequence[PyTree]] = [tuple(infeed)] * (rows * columns)
    if infeed and all(isinstance(row, list) for row in infeed):  # nested lists rather than items
        queues = list(chain.from_iterable(_checked_grid("infeed", infeed, (rows, columns))))
    simulation = Simulation(closed, columns, queues, {} if host is None else host)
    results = simulation.run()
    if outfeed is not None:
        outfeed[:] = _nested([list(process.outfeed) for process in simulation.processes], columns)
    return _nested(results, columns)


def _checked_grid(name: str, grid: Grid, sizes: tuple[int, int] | None = None) -> Grid:
    """Return a list of lists after checking its lengths (`sizes`, or equal ones)."""
    is_grid = isinstance(grid, Sequence) and all(isinstance(row, Sequence) for row in grid)
    lengths = [len(row) for row in grid] if is_grid else []
    wanted = sizes or (len(lengths), lengths[0] if lengths else 0)
    if lengths != [wanted[1]] * wanted[0] or 0 in wanted:
        text = f"{len(lengths)} replicas of {lengths} partitions" if is_grid else repr(grid)[:200]
        problem = f"{name} must be a list of replicas, each a list of equally many partitions"
        if sizes:
            problem = f"{name} must have the nesting of arguments"
            text += f"; arguments: {wanted[0]} replicas of {wanted[1]} partitions"
        advice = (
            "The outer list needs one entry per replica, each a list with one entry per partition."
        )
        raise misfit("simulate", problem, [f"{name}: {text}"], advice)
    is_deeper = name in ("arguments", "infeed")
    if is_deeper and not all(isinstance(item, Sequence) for row in grid for item in row):
        problem = f"the {name} of a process must be a tuple or a list"
        details = [f"{item!r}"[:200] for row in grid for item in row]
        raise misfit("simulate", problem, details, "Write (x,) for one item.")
    return grid


def _nested(values: Sequence[Item], columns: int) -> list[list[Item]]:
    return [list(values[start : start + columns]) for start in range(0, len(values), columns)]
