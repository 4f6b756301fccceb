"""The process that a thread runs, as the reference rules of collectives and transfers see it.

Outside `mx.simulate` (`minixla.reference_evaluator.simulation`) it is the only replica's only
partition, which can meet nobody but has queues to and from the host.
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
    """What a process brings to a collective."""

    # The n-th of each member with the same subject, channel and members is one meeting.
    subject: str  # the operation's name
    channel: int  # 0 for none
    members: tuple[ProcessId, ...]  # who meets, this process among them
    value: object  # what this process brings
    signature: Hashable  # what must be equal for all members
    #: Called once, with the values in the order of `members`; all get its result.
    combine: Callable[[list[Any]], object]


@dataclass(eq=False)
class Process:
    """One of the processes that run together, and its ways to the others; here, to none."""

    replica: int = 0  # its number among them
    partition: int = 0
    replica_count: int = 1
    partition_count: int = 1
    infeed: deque[object] = field(default_factory=deque)  # what its Infeed reads, from the left
    outfeed: deque[object] = field(default_factory=deque)  # what its Outfeed wrote and nobody took
    #: What the host holds for each channel: to be received from the left, and sent to it.
    host: dict[int, deque[object]] = field(default_factory=lambda: defaultdict(deque))

    @property
    def id(self) -> ProcessId:
        """Its replica and partition."""
        return self.replica, self.partition

    def meet(self, meeting: Meeting) -> Any:
        """Waits until all members have come; gives what their values make together."""
        if meeting.members == (self.id,):
            return meeting.combine([meeting.value])
        others = ", ".join([str(member) for member in meeting.members if member != self.id])
        self._alone(meeting.subject, f"other processes: (replica, partition) {others}")

    def start_send(self, channel: int, value: object, to_host: bool) -> int:
        """Offers a value on a channel; returns the number of the request."""
        if to_host:
            self.host[channel].append(value)
            return 0
        self._alone("send", f"a recv on channel {channel}")

    def finish_send(self, request: int) -> None:
        """Waits until the value has been taken; the host has taken it at once."""

    def start_receive(self, channel: int, from_host: bool) -> int:
        """Asks for the next value on a channel; returns the number of the request."""
        if from_host:
            return channel
        self._alone("recv", f"a send on channel {channel}")

    def finish_receive(self, request: int) -> Any:
        """Waits for the value that was asked for: of the host, the next on that channel."""
        if not self.host[request]:
            self._alone("recv", f"a value of the host on channel {request}")
        return self.host[request].popleft()

    def next_infeed(self) -> Any:
        """The next item of the infeed: an array, or a tuple of arrays."""
        if not self.infeed:
            self._alone("infeed", "an item of its infeed")
        return self.infeed.popleft()

    def put_outfeed(self, value: object) -> None:
        """Writes an item to the outfeed."""
        self.outfeed.append(value)

    def _alone(self, subject: str, awaited: str) -> NoReturn:
        problem = "it would wait for ever: no other process is running"
        advice = "Run the programs of all processes together with mx.simulate; give the host's "
        advice += "data first, with mx.transfer_to_infeed."
        raise explain(DeadlockError, subject, problem, [f"it waits for {awaited}"], advice)


_ALONE = Process()
_current = ContextVar("process", default=_ALONE)  # each thread starts with its own


def current_process() -> Process:
    """The process that this thread runs."""
    return _current.get()


def transfer_to_infeed(item: object) -> None:
    """Puts an array or a tuple of arrays into the infeed of programs outside `mx.simulate`.

    Args:
        item: what Infeed reads.

    Example:
        >>> mx.transfer_to_infeed(np.float32([1, 2]))
        >>> mx.reference(lambda: mx.ops.infeed(mx.Shape("f32", (2,))))()
        array([1., 2.], dtype=float32)
    """
    _ALONE.infeed.append(tuple(item) if isinstance(item, (tuple, list)) else item)


def transfer_from_outfeed() -> Any:
    """The oldest array, or tuple of arrays, that a program outside `mx.simulate` wrote.

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
        problem = "it would wait for ever: nothing was written"
        advice = "Run the program that writes first; jax.effects_barrier() waits until it has."
        raise explain(DeadlockError, "transfer_from_outfeed", problem, advice=advice)
    return _ALONE.outfeed.popleft()


@contextmanager
def running_on(process: Process) -> Iterator[None]:
    """Makes `process` this thread's inside a `with` block."""
    token = _current.set(process)
    try:
        yield
    finally:
        _current.reset(token)
