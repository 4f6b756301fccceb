"""The process that a thread runs, as seen by the reference rules of collectives and transfers.

Outside `mx.simulate` (`minixla.reference_evaluator.simulation`) it is the only partition of the
only replica. It cannot meet other processes, but has queues to and from the host.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn

from minixla.core.errors import DeadlockError, explain

#: (replica, partition).
ProcessId = tuple[int, int]


class Meeting(NamedTuple):
    """The data that a process passes to a collective."""

    # The n-th calls of all members with equal subject, channel and members meet.
    subject: str  # the operation's name.
    channel: int  # 0 for no channel.
    members: tuple[ProcessId, ...]  # all participants, including this process.
    value: object  # the value of this process.
    signature: Hashable  # must be equal for all members.
    #: Called once, with the values in the order of `members`; all get its result.
    combine: Callable[[list[Any]], object]


@dataclass(eq=False)
class Process:
    """One of the processes that run together; this base class has no other processes."""

    replica: int = 0  # its index
    partition: int = 0
    replica_count: int = 1
    partition_count: int = 1
    infeed: deque[object] = field(
        default_factory=deque
    )  # the items that Infeed reads, from the left
    outfeed: deque[object] = field(
        default_factory=deque
    )  # the items of Outfeed that were not taken
    #: The host's values for each channel: to be received from the left, and sent to it.
    host: dict[int, deque[object]] = field(default_factory=lambda: defaultdict(deque))

    @property
    def id(self) -> ProcessId:
        """Its replica and partition."""
        return self.replica, self.partition

    def meet(self, meeting: Meeting) -> Any:
        """Wait for all members; return the combination of their values."""
        if meeting.members == (self.id,):
            return meeting.combine([meeting.value])
        others = ", ".join([str(member) for member in meeting.members if member != self.id])
        self._alone(meeting.subject, f"other processes: (replica, partition) {others}")

    def start_send(self, channel: int, value: object, to_host: bool) -> int:
        """Offer a value on a channel; return the id of the request."""
        if to_host:
            self.host[channel].append(value)
            return 0
        self._alone("send", f"a recv on channel {channel}")

    def finish_send(self, request: int) -> None:
        """Wait until the value has been taken; the host takes it immediately."""

    def start_receive(self, channel: int, from_host: bool) -> int:
        """Request the next value on a channel; return the id of the request."""
        if from_host:
            return channel
        self._alone("recv", f"a send on channel {channel}")

    def finish_receive(self, request: int) -> Any:
        """Wait for the requested value; from the host, it is the next one on that channel."""
        if not self.host[request]:
            self._alone("recv", f"a value of the host on channel {request}")
        return self.host[request].popleft()

    def next_infeed(self) -> Any:
        """Return the next item of the infeed: an array, or a tuple of arrays."""
        if not self.infeed:
            self._alone("infeed", "an item of its infeed")
        return self.infeed.popleft()

    def put_outfeed(self, value: object) -> None:
        """Append an item to the outfeed."""
        self.outfeed.append(value)

    def _alone(self, subject: str, awaited: str) -> NoReturn:
        problem = "it would block forever: no other process is running"
        advice = "Run the programs of all processes together with mx.simulate; pass the host's "
        advice += "data first, with mx.transfer_to_infeed."
        raise explain(DeadlockError, subject, problem, [f"it waits for {awaited}"], advice)


_ALONE = Process()
_current = ContextVar("process", default=_ALONE)  # each thread starts with its own


def current_process() -> Process:
    """Return the process that this thread runs."""
    return _current.get()


def transfer_to_infeed(item: object) -> None:
    """Append an array or a tuple of arrays to the infeed of programs outside `mx.simulate`.

    Args:
        item: the item that Infeed reads.

    Example:
        >>> mx.transfer_to_infeed(np.float32([1, 2]))
        >>> mx.reference(lambda: mx.ops.infeed(mx.Shape("f32", (2,))))()
        array([1., 2.], dtype=float32)
    """
    _ALONE.infeed.append(tuple(item) if isinstance(item, (tuple, list)) else item)


def transfer_from_outfeed() -> Any:
    """Return the oldest array, or tuple of arrays, that a program outside `mx.simulate` wrote.

    Returns:
        An array, or a tuple of arrays.

    Raises:
        DeadlockError: nothing was written to the outfeed.

    Example:
        >>> write = lambda x: mx.ops.outfeed(x)
        >>> mx.reference(write)(np.float32([1, 2]))
        >>> mx.transfer_from_outfeed()
        array([1., 2.], dtype=float32)
    """
    if not _ALONE.outfeed:
        problem = "it would block forever: nothing was written"
        advice = "Run the writing program first; jax.effects_barrier() waits for it."
        raise explain(DeadlockError, "transfer_from_outfeed", problem, advice=advice)
    return _ALONE.outfeed.popleft()


@contextmanager
def running_on(process: Process) -> Iterator[None]:
    """Make `process` this thread's process inside a `with` block."""
    token = _current.set(process)
    try:
        yield
    finally:
        _current.reset(token)
