"""Many processes in one: threads that take turns, meet in collectives and pass values on channels.

One thread a process, of which one runs at a time, until it must wait; then the first process, in
the order of replicas and partitions, goes on that need not wait any more. So runs are
deterministic, and a deadlock is where nobody can go on. Ctrl-C ends all of them.
"""

from __future__ import annotations

import ctypes
import heapq
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

from minixla.core.errors import DeadlockError, ShapeError, explain
from minixla.core.processes import Process, ProcessId, running_on
from minixla.core.source import Source, find_source
from minixla.core.state import state

# How long threads have to end when the user has interrupted a simulation.
_SECONDS = 1.0


class _Cancelled(SystemExit):
    """Ends a process's thread: no `except Exception` catches it, and nobody is told."""


class _Waiting(NamedTuple):
    """What a process waits for.

    Attributes:
        event: the meeting or transfer that will wake it, or None.
        subject: the operation.
        source: the user's line.
        awaited: a clause that says for what.
        missing: gives the processes that it waits for, where they are known.
    """

    event: Any
    subject: str
    source: Source | None
    awaited: str
    missing: Callable[[], Sequence[ProcessId]]


class _Meeting:
    """A collective that some of its members have reached."""

    def __init__(self, first: _Simulated, signature: Hashable) -> None:
        self.signature = signature
        self.first = f"{first.name}, at {_here()}"
        self.values: dict[ProcessId, Any] = {}
        self.waiting: list[_Simulated] = []
        self.result: Any = None


class _Transfer:
    """One half of a transfer; it is done when it has met the other half."""

    def __init__(self, number: int, process: _Simulated, channel: int, value: Any = None) -> None:
        self.number = number
        self.process = process
        self.channel = channel
        self.value = value
        self.is_done = False

    def finish(self) -> None:
        self.is_done = True
        self.process.wake(self)


class _Channel:
    """Sends and receives on one channel that have not met yet."""

    def __init__(self) -> None:
        self.sends: deque[_Transfer] = deque()
        self.receives: deque[_Transfer] = deque()


class _Simulated(Process):
    """A process of a simulation; its methods run in its own thread."""

    def __init__(
        self, simulation: Simulation, number: int, partition_count: int, program: Callable[[], Any]
    ) -> None:
        counts = simulation.count // partition_count, partition_count
        super().__init__(*divmod(number, partition_count), *counts)
        self.simulation = simulation
        self.number = number
        self.program = program
        self.turn = threading.Semaphore(0)
        self.thread: threading.Thread | None = None
        self.waiting: _Waiting | None = None
        self.is_done = False
        self.result: Any = None
        self.error: BaseException | None = None
        self.infeed: Sequence[Any] = ()
        self.items_read = 0
        self.outfeed: list[Any] = []

    @property
    def name(self) -> str:
        """What messages call it."""
        return f"replica {self.replica}, partition {self.partition}"

    def run(self) -> None:
        """The thread: the program, once it is this process's turn."""
        self.turn.acquire()
        try:
            if not self.simulation.is_cancelled:
                with running_on(self):
                    self.result = self.program()
        except BaseException as error:  # the simulation raises it again, in its own thread
            self.error = error
        self.is_done = True
        self.simulation.idle.release()

    def wait(self, waiting: _Waiting) -> None:
        """Lets others run until somebody wakes this process."""
        self.waiting = waiting
        self.simulation.idle.release()
        self.turn.acquire()
        if self.simulation.is_cancelled:
            raise _Cancelled
        self.waiting = None

    def wake(self, event: Any) -> None:
        """Lets the process go on, where it waits for `event`."""
        if self.waiting is not None and self.waiting.event is event:
            self.simulation.make_ready(self.number)

    def meet(
        self,
        subject: str,
        channel: int,
        members: Sequence[ProcessId],
        value: Any,
        signature: Hashable,
        combine: Callable[[list[Any]], Any],
    ) -> Any:
        members = tuple(members)
        meetings, key = self.simulation.meetings, (subject, channel, members)
        meeting = meetings.get(key)
        if meeting is None:
            meeting = meetings[key] = _Meeting(self, signature)
        elif meeting.signature != signature:
            raise explain(
                ShapeError,
                subject,
                "processes that meet have different operands or attributes",
                [f"{meeting.first}: {meeting.signature}", f"{self.name}: {signature}"],
                "The n-th use by each member of a group is one collective: all must make the same "
                "calls in the same order; give unrelated ones different channels.",
            )
        meeting.values[self.id] = value
        if len(meeting.values) == len(members):
            del meetings[key]
            meeting.result = combine([meeting.values[each] for each in members])
            for each in meeting.waiting:
                each.wake(meeting)
        else:
            meeting.waiting.append(self)
            where = f"on channel {channel} " if channel else ""
            awaited = f"{where}in the group {_listed(members)}"

            def missing() -> list[ProcessId]:
                return [each for each in members if each not in meeting.values]

            self.wait(_Waiting(meeting, subject, _here(), awaited, missing))
        return meeting.result

    def start_send(self, channel: int, value: Any, to_host: bool) -> int:
        transfer = self.simulation.open_transfer(self, channel, value)
        if to_host:
            self.simulation.host.setdefault(channel, []).append(value)
            transfer.is_done = True
            return transfer.number
        ends = self.simulation.channels.setdefault(channel, _Channel())
        receive = _take_from_others(ends.receives, self)
        if receive is None:
            ends.sends.append(transfer)
        else:
            receive.value = value
            receive.finish()
            transfer.is_done = True
        return transfer.number

    def start_receive(self, channel: int, from_host: bool) -> int:
        transfer = self.simulation.open_transfer(self, channel)
        if from_host:
            queue = self.simulation.host.get(channel)
            if queue:
                transfer.value = queue.pop(0)
                transfer.is_done = True
            return transfer.number
        ends = self.simulation.channels.setdefault(channel, _Channel())
        send = _take_from_others(ends.sends, self)
        if send is None:
            ends.receives.append(transfer)
        else:
            transfer.value = send.value
            transfer.is_done = True
            send.finish()
        return transfer.number

    def finish_send(self, request: int) -> None:
        self._finish(request, "send", "for a recv on channel {channel}")

    def finish_receive(self, request: int) -> Any:
        return self._finish(request, "recv", "for a value on channel {channel}").value

    def _finish(self, request: int, subject: str, awaited: str) -> _Transfer:
        transfer = self.simulation.transfers.pop(request)
        if not transfer.is_done:
            missing = tuple  # who is meant to be at the other end, nobody has said
            awaited = awaited.format(channel=transfer.channel)
            self.wait(_Waiting(transfer, subject, _here(), awaited, missing))
        return transfer

    def next_infeed(self) -> Any:
        if self.items_read == len(self.infeed):
            awaited = f"for an item of its infeed, whose {self.items_read} items have been read"
            self.wait(_Waiting(None, "infeed", _here(), awaited, tuple))
        self.items_read += 1
        return self.infeed[self.items_read - 1]

    def put_outfeed(self, value: Any) -> None:
        self.outfeed.append(value)


def _take_from_others(queue: deque[_Transfer], process: _Simulated) -> _Transfer | None:
    """The oldest transfer of another process, taken out of the queue."""
    for transfer in queue:
        if transfer.process is not process:
            queue.remove(transfer)
            return transfer
    return None


def _raise_in(thread: threading.Thread, error: type[BaseException]) -> None:
    """Raises an error in another thread, when it next runs Python."""
    number = ctypes.c_ulong(thread.ident or 0)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(number, ctypes.py_object(error))


def _here() -> Source | None:
    return state.source or find_source(2)


def _listed(members: Sequence[ProcessId]) -> str:
    shown = ", ".join(map(str, members[:16]))
    return shown if len(members) <= 16 else f"{shown}, ... ({len(members)} processes)"


class Simulation:
    """Processes that run together.

    Attributes:
        host: what the host holds for each channel: values to be received from it, values that
            were sent to it.
        outfeeds: after a run what each process wrote to its outfeed.
    """

    def __init__(
        self,
        programs: Sequence[Sequence[Callable[[], Any]]],
        infeeds: Sequence[Sequence[Any]],
        host: dict[int, list[Any]],
    ) -> None:
        """Sets processes up.

        Args:
            programs: for each replica and partition a function of nothing.
            infeeds: for each process, partitions innermost, the items of its infeed.
            host: see above; it is changed.
        """
        self.partition_count = len(programs[0])
        self.count = len(programs) * self.partition_count
        self.host = host
        self.is_cancelled = False
        #: Released by the running process when it waits or has ended.
        self.idle = threading.Semaphore(0)
        self.meetings: dict[Hashable, _Meeting] = {}
        self.channels: dict[int, _Channel] = {}
        self.transfers: dict[int, _Transfer] = {}
        self._requests = 0
        self._ready = list(range(self.count))  # a heap
        flat = [program for row in programs for program in row]
        self._processes = [
            _Simulated(self, number, self.partition_count, program)
            for number, program in enumerate(flat)
        ]
        for process, infeed in zip(self._processes, infeeds, strict=True):
            process.infeed = infeed

    @property
    def outfeeds(self) -> list[list[Any]]:
        """What each process wrote."""
        return [process.outfeed for process in self._processes]

    def make_ready(self, number: int) -> None:
        """Puts a process that need not wait any more among those that may run."""
        heapq.heappush(self._ready, number)

    def open_transfer(self, process: _Simulated, channel: int, value: Any = None) -> _Transfer:
        """A new half of a transfer, which is finished by its number."""
        self._requests += 1
        transfer = _Transfer(self._requests, process, channel, value)
        self.transfers[transfer.number] = transfer
        return transfer

    def run(self) -> list[Any]:
        """The results of all processes, partitions innermost.

        Raises:
            DeadlockError: processes wait for ever.
            Exception: the first that a program raised.
        """
        try:
            while self._ready:
                self._let_run(self._processes[heapq.heappop(self._ready)])
            if any(not process.is_done for process in self._processes):
                raise self._deadlock()
        except KeyboardInterrupt as interrupt:
            self._interrupt_threads(interrupt)
            raise
        finally:
            self._end_threads()
        return [process.result for process in self._processes]

    def _let_run(self, process: _Simulated) -> None:
        if process.thread is None:
            name = f"minixla process {process.id}"
            process.thread = threading.Thread(target=process.run, name=name, daemon=True)
            process.thread.start()
        process.turn.release()
        self.idle.acquire()
        if process.error is not None:
            process.error.add_note(f"raised by {process.name} of mx.simulate")
            raise process.error

    def _end_threads(self) -> None:
        """Ends the processes that wait; the others of a simulation have ended."""
        self.is_cancelled = True
        try:
            for process in self._running():
                assert process.thread is not None
                while process.thread.is_alive():  # it may catch what ends it, and wait again
                    process.turn.release()
                    process.thread.join(0.05)
        except KeyboardInterrupt as interrupt:
            self._interrupt_threads(interrupt)
            raise

    def _interrupt_threads(self, interrupt: KeyboardInterrupt) -> None:
        """Ends all processes, those that compute too: what they run next in Python raises."""
        self.is_cancelled = True
        until = time.monotonic() + _SECONDS
        while (running := self._running()) and time.monotonic() < until:
            for process in running:
                assert process.thread is not None
                _raise_in(process.thread, _Cancelled)
                process.turn.release()
                process.thread.join(0.01)
        # They end as soon as they return to Python, and until then keep nobody from leaving it.
        self._processes = [each for each in self._processes if each not in running]
        for process in running:
            interrupt.add_note(f"{process.name} of mx.simulate is in a function that is not Python")

    def _running(self) -> list[_Simulated]:
        return [each for each in self._processes if each.thread and each.thread.is_alive()]

    def _deadlock(self) -> DeadlockError:
        given = [self._described(process) for process in self._processes if not process.is_done]
        return explain(
            DeadlockError,
            "simulate",
            f"{len(given)} of {self.count} processes wait for ever",
            given,
            "All members of a group must make the same collective calls, in the same order, as "
            "often as each other; each recv needs a send of another process on its channel.",
        )

    def _described(self, process: _Simulated) -> str:
        waiting = process.waiting
        assert waiting is not None
        text = f"{process.name} waits in {waiting.subject} {waiting.awaited}"
        missing = [self._state_of(each) for each in waiting.missing()]
        if missing:
            text += f" for {'; '.join(missing)}"
        return f"{text}; called at {waiting.source}"

    def _state_of(self, id: ProcessId) -> str:
        process = self._processes[id[0] * self.partition_count + id[1]]
        waiting = process.waiting
        doing = "has returned" if waiting is None else f"waits in {waiting.subject}"
        return f"{process.name}, which {doing}"
