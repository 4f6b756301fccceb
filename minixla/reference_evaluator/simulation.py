"""Simulated processes: threads that take turns, meet in collectives and pass values on channels.

Each process is a thread, and one thread runs at a time until it must wait. Then the first process
that can continue runs, in the order of replicas and partitions. So runs are deterministic, and in
a deadlock no process can continue. Ctrl-C ends all processes.
"""

import ctypes
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple

from minixla.core.errors import DeadlockError, ShapeError, explain
from minixla.core.source import Source, find_source
from minixla.core.state import state
from minixla_ops.collectives.processes import Meeting, Process, ProcessId, running_on

# Seconds in which threads must end after the user has interrupted a simulation.
_SECONDS = 1.0


class _Cancelled(SystemExit):
    """Exception that ends a process's thread silently; `except Exception` does not catch it."""


Program = Callable[[], Any]


class _Waiting(NamedTuple):
    """The reason why a process waits: a description, and the other processes if they are known."""

    is_over: Callable[[], bool]
    subject: str
    awaited: str
    missing: Callable[[], Sequence[ProcessId]] = tuple
    source: Source | None = None


@dataclass
class _Gathering:
    """A collective in progress: the first process to arrive, the values so far, and the result."""

    first: str
    signature: Hashable
    values: dict[ProcessId, Any] = field(default_factory=dict)
    result: Any = None


@dataclass(eq=False)
class _Transfer:
    """One half of a transfer; it is done when it is matched with the other half."""

    process: Process
    channel: int
    is_send: bool
    value: Any = None
    is_done: bool = False


class _Simulated(Process):
    """A process of a simulation; its methods run in its own thread."""

    def __init__(self, within: "Simulation", number: int, program: Program, infeed: Any) -> None:
        partitions = within.partition_count
        counts = within.count // partitions, partitions
        super().__init__(*divmod(number, partitions), *counts, deque(infeed))
        self.simulation, self.program = within, program
        self.turn = threading.Semaphore(0)
        self.name = f"replica {self.replica}, partition {self.partition}"
        thread_name = f"minixla process {self.id}"
        self.thread = threading.Thread(target=self.run, name=thread_name, daemon=True)
        self.waiting: _Waiting | None = None
        self.is_done, self.item_count = False, len(infeed)
        self.result: Any = None
        self.error: BaseException | None = None

    @property
    def can_run(self) -> bool:
        return not self.is_done and (self.waiting is None or self.waiting.is_over())

    def run(self) -> None:
        """Run the program in the thread when it is this process's turn."""
        self.turn.acquire()
        try:
            if not self.simulation.is_cancelled:
                with running_on(self):
                    self.result = self.program()
        except BaseException as error:  # the simulation raises it again in its own thread
            self.error = error
        self.is_done = True
        self.simulation.idle.release()

    def wait(self, *waiting: Any) -> None:
        """Let other processes run until the wait is over; for the arguments see _Waiting."""
        self.waiting = _Waiting(*waiting)._replace(source=state.source or find_source())
        self.simulation.idle.release()
        self.turn.acquire()
        if self.simulation.is_cancelled:
            raise _Cancelled
        self.waiting = None

    def meet(self, meeting: Meeting) -> Any:
        subject, channel, members, value, signature, combine = meeting
        gatherings, key = self.simulation.gatherings, (subject, channel, members)
        here = f"{self.name}, at {state.source or find_source()}"
        gathering = gatherings.setdefault(key, _Gathering(here, signature))
        if gathering.signature != signature:
            problem = "processes of one collective must have equal operands and attributes"
            details = [f"{gathering.first}: {gathering.signature}", f"{self.name}: {signature}"]
            advice = (
                "The n-th call by each member of a group is one collective, so all must make the "
            )
            advice += "same calls in the same order; use different channels for unrelated calls."
            raise explain(ShapeError, subject, problem, details, advice)
        values = gathering.values
        values[self.id] = value
        if len(values) == len(members):
            del gatherings[key]
            gathering.result = combine([values[member] for member in members])
        else:
            where = f"on channel {channel} " if channel else ""
            self.wait(
                lambda: len(values) == len(members),
                subject,
                f"{where}in the group {_listed(members)}",
                lambda: [member for member in members if member not in values],
            )
        return gathering.result

    def start_send(self, channel: int, value: Any, to_host: bool) -> int:
        if to_host:
            self.simulation.host.setdefault(channel, []).append(value)
        return self._started(_Transfer(self, channel, True, value, to_host), to_host)

    def start_receive(self, channel: int, from_host: bool) -> int:
        held = from_host and self.simulation.host.get(channel)
        received = (held.pop(0), True) if held else ()
        return self._started(_Transfer(self, channel, False, *received), from_host)

    def _started(self, transfer: _Transfer, with_host: bool) -> int:
        """Return the request number that finishes a transfer; it is never 0."""
        # It is done when it is matched with its other half, the oldest of another process.
        halves, channel = self.simulation.halves, transfer.channel
        others = () if with_host else halves[channel, not transfer.is_send]
        partner = next((other for other in others if other.process is not self), None)
        if partner is not None:
            halves[channel, partner.is_send].remove(partner)
            transfer.value = partner.value = transfer.value if transfer.is_send else partner.value
            transfer.is_done = partner.is_done = True
        elif not with_host:
            halves[channel, transfer.is_send].append(transfer)
        number = next(self.simulation.numbers)
        self.simulation.transfers[number] = transfer
        return number

    def finish_send(self, request: int) -> None:
        self._finish(request, "send", "for a recv on channel")

    def finish_receive(self, request: int) -> Any:
        return self._finish(request, "recv", "for a value on channel").value

    def _finish(self, request: int, subject: str, awaited: str) -> _Transfer:
        transfer = self.simulation.transfers.pop(request)
        if not transfer.is_done:
            # The other end of a transfer is not known in advance.
            self.wait(lambda: transfer.is_done, subject, f"{awaited} {transfer.channel}")
        return transfer

    def next_infeed(self) -> Any:
        if not self.infeed:
            awaited = f"for an item of its infeed, after reading all {self.item_count} items"
            self.wait(lambda: False, "infeed", awaited)
        return super().next_infeed()


def _listed(members: Sequence[ProcessId]) -> str:
    listed = ", ".join(map(str, members[:16]))
    return listed if len(members) <= 16 else f"{listed}, ... ({len(members)} processes)"


class Simulation:
    """Processes that run together: programs of replicas of `columns` partitions, and infeeds."""

    def __init__(self, programs: Sequence[Program], columns: int, infeeds: Any, host: Any) -> None:
        self.partition_count, self.count = columns, len(programs)
        self.host = host  # its values by channel: to be received from it, or sent to it
        self.is_cancelled = False
        self.idle = threading.Semaphore(0)  # the running process releases it, to wait or at its end
        self.gatherings: dict[Hashable, _Gathering] = {}
        #: Unmatched halves by channel and whether they are sends.
        self.halves: dict[tuple[int, bool], list[_Transfer]] = defaultdict(list)
        self.transfers: dict[int, _Transfer] = {}
        self.numbers = count(1)
        pairs = zip(programs, infeeds, strict=True)
        self.processes = [_Simulated(self, n, *pair) for n, pair in enumerate(pairs)]

    def run(self) -> list[Any]:
        """Return all results, partitions innermost, or raise the first error of a process."""
        try:
            while ready := next((process for process in self.processes if process.can_run), None):
                if not ready.thread.ident:
                    ready.thread.start()
                ready.turn.release()
                self.idle.acquire()
                if ready.error is not None:
                    ready.error.add_note(f"raised by {ready.name} of mx.simulate")
                    raise ready.error
            if any(not process.is_done for process in self.processes):
                raise self._deadlock()
        except KeyboardInterrupt as interrupt:
            self._interrupt_threads(interrupt)
            raise
        finally:
            self._end_threads()
        return [process.result for process in self.processes]

    def _end_threads(self) -> None:
        """End the processes that wait; the other processes of the simulation have ended."""
        self.is_cancelled = True
        try:
            for process in self._running():
                while (
                    process.thread.is_alive()
                ):  # it may catch the exception that ends it, and wait again
                    process.turn.release()
                    process.thread.join(0.05)
        except KeyboardInterrupt as interrupt:
            self._interrupt_threads(interrupt)
            raise

    def _interrupt_threads(self, interrupt: KeyboardInterrupt) -> None:
        """End all processes, including those that compute: the next Python code in them raises."""
        self.is_cancelled = True
        until = time.monotonic() + _SECONDS
        while (running := self._running()) and time.monotonic() < until:
            for process in running:
                # The thread raises it when it next runs Python code.
                number = ctypes.c_ulong(process.thread.ident or 0)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(number, ctypes.py_object(_Cancelled))
                process.turn.release()
                process.thread.join(0.01)
        # They end when they return to Python; until then they must not block the exit.
        self.processes = [process for process in self.processes if process not in running]
        for process in running:
            interrupt.add_note(f"{process.name} of mx.simulate is in a function that is not Python")

    def _running(self) -> list[_Simulated]:
        return [process for process in self.processes if process.thread.is_alive()]

    def _deadlock(self) -> DeadlockError:
        given = []
        for process in self.processes:
            waiting = process.waiting
            if process.is_done or waiting is None:
                continue
            awaited = []
            for replica, partition in waiting.missing():
                other = self.processes[replica * self.partition_count + partition]
                doing = f"waits in {other.waiting.subject}" if other.waiting else "has returned"
                awaited.append(f"{other.name}, which {doing}")
            text = f"{process.name} waits in {waiting.subject} {waiting.awaited}"
            text += f" for {'; '.join(awaited)}" if awaited else ""
            given.append(f"{text}; called at {waiting.source}")
        problem = f"{len(given)} of {self.count} processes wait forever"
        advice = "All members of a group must make the same collective calls, in the same order, "
        advice += (
            "and equally many times; each recv needs a send of another process on its channel."
        )
        return explain(DeadlockError, "simulate", problem, given, advice)
