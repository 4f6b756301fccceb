"""Steps that passes insert into a program."""

from collections.abc import Iterator, Sequence
from typing import Any

from minixla.core.operation import Operation
from minixla.sharding.operations import Reshard
from minixla.sharding.program import Block, Program, Step, Use, Value
from minixla.sharding.tensor_sharding import TensorSharding


class Insertions:
    """Steps to insert into a program, next to existing steps and blocks."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.uses = program.uses()
        self.before: dict[Step | Block, list[Step]] = {}
        self.behind: dict[Step | Block, list[Step]] = {}

    def reshard(self, use: Use, wanted: TensorSharding, is_late: bool = True) -> None:
        """Reshard the value that a use reads.

        Args:
            use: the use.
            wanted: the new sharding.
            is_late: whether to insert the reshard at the use, not after the step of the value.
        """
        self.read_through(use, Reshard(wanted), is_late)

    def read_through(self, use: Use, made: Operation, is_late: bool = True) -> None:
        """Insert an operation between an operand and its reader; see `reshard`."""
        value = use.value
        block = use.block if is_late else value.block
        step = block.new_step(made, [value], _source(use, value))
        if is_late:
            self.before.setdefault(use.user, []).append(step)
        else:
            self.behind.setdefault(value.owner, []).insert(0, step)
        self._read(use, value, step)

    def _read(self, use: Use, value: Value, step: Step) -> None:
        self.uses[value].remove(use)
        self.uses[value].append(Use(step, 0))
        self.uses[step.results[0]] = [use]
        use.put(step.results[0])

    def put_behind(self, steps: Sequence[Step], anchor: Step) -> None:
        """Insert steps of one operand each after another step; its readers then read them."""
        self.behind.setdefault(anchor, [])[:0] = steps
        for step in steps:
            (value,), (result,) = step.operands, step.results
            self.uses[result] = self.uses.pop(value, [])
            for use in self.uses[result]:
                use.put(result)
            self.uses[value] = [Use(step, 0)]

    def write(self) -> None:
        """Insert the steps."""
        if not (self.before or self.behind):
            return
        for block in list(self.program.blocks()):
            steps = [inserted for step in block.steps for inserted in self._around(step)]
            first = [
                inserted for step in self.behind.get(block, ()) for inserted in self._around(step)
            ]
            last = [
                inserted for step in self.before.get(block, ()) for inserted in self._around(step)
            ]
            block.steps = [*first, *steps, *last]

    def _around(self, step: Step) -> Iterator[Step]:
        for inserted in self.before.get(step, ()):
            yield from self._around(inserted)
        yield step
        for inserted in self.behind.get(step, ()):
            yield from self._around(inserted)


def _source(use: Use, value: Value) -> Any:
    step = use.step or value.step
    return step and step.source


def differ(one: TensorSharding | None, other: TensorSharding | None) -> bool:
    """Test whether shardings differ; no sharding is the same as a replicated one."""
    return (one and _said(one)) != (other and _said(other)) and not (
        _is_replicated(one) and _is_replicated(other)
    )


def _said(sharding: TensorSharding) -> object:
    return sharding.mesh, sharding.parts, sharding.unreduced


def _is_replicated(sharding: TensorSharding | None) -> bool:
    return sharding is None or (sharding.is_replicated and not sharding.mesh.is_maximal)


def replicated(like: TensorSharding | None, value: Value) -> TensorSharding:
    """Return the replicated sharding of a value, on the mesh of another sharding."""
    assert like is not None
    return TensorSharding.closed(like.mesh, value.rank, like.mesh_name)
