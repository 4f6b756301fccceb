"""RaggedAllToAll: rows of varying number to each member of a group."""

from collections.abc import Iterator, Sequence
from typing import NoReturn

import numpy as np

import minixla_ops as ops
from minixla.core import Shape, register
from minixla.core.errors import IndexingError, explain
from minixla.typing import Array
from minixla_ops.collectives.collective_groups import CHANNEL, GROUPS, Collective
from minixla_ops.collectives.processes import current_process
from minixla_ops.elementwise.operators import convert
from minixla_ops.helpers.batch_dimensions import batch_size, move_batch
from minixla_ops.helpers.shorthand import array_shape, splat, zeros
from minixla_ops.programs.computations import sum_over
from minixla_ops.programs.lowering import Lowered

_INDEX = Shape("s32")


@register
class RaggedAllToAll(Lowered, Collective):
    """Sends slices of rows to each member, which writes them into its output. XLA: RaggedAllToAll.

    For each member i of the group (and each update u, where offsets and sizes have two dimensions)
    rows [input_offsets[i], + send_sizes[i]) of input go to member i, which stores them as rows
    [output_offsets[i], + send_sizes[i]) of its output: output_offsets are the sender's. The result
    is output with all that arrived written in. recv_sizes[i] is what member i sends here.

    In NumPy rows outside input or output, rows written twice, and recv_sizes that are wrong are
    errors; elsewhere the result is undefined then. It runs as a program of all_to_all and gather.

    Args:
        input: an array; its rows are sent.
        input_offsets: s32[members] or s32[members, updates]: the first row for each member.
        send_sizes: how many rows, in the same shape.
        output: an array with rows like those of input.
        output_offsets: the first row in the output of each member, in the same shape.
        recv_sizes: how many rows each member sends here, in the same shape.
        replica_groups, channel_id: who takes part; see Collective.

    Returns:
        An array of the shape of output.

    Checks:
        (C1) input and output have one element type and equal dimensions but for the first.
        (C2) offsets and sizes are integers of one shape, [members] or [members, updates].
        (G1), (G2), (G4) see Collective; the size is that of the offsets' first dimension.

    Raises:
        IndexingError: where it runs in NumPy, rows that do not fit.

    Example:
        >>> send = lambda x, sizes: ops.ragged_all_to_all(
        ...     x, np.int32([0]), sizes, np.int32([0, 0, 0]), np.int32([1]), sizes
        ... )
        >>> mx.simulate(send, [[(np.int32([5, 6]), np.int32([2]))]])
        [[array([0, 5, 6], dtype=int32)]]
    """

    operands = "input", "input_offsets", "send_sizes", "output", "output_offsets", "recv_sizes"
    replica_groups = GROUPS
    channel_id = CHANNEL

    def shape(self, rows, starts, sizes, output, places, counts):
        is_of_one_type = rows.element_type is output.element_type
        if not (rows.rank and is_of_one_type and rows.dimensions[1:] == output.dimensions[1:]):
            self.refuse("C1", "input and output do not have the same rows")
        indices = starts, sizes, places, counts
        are_integers = all(index.element_type.is_integer for index in indices)
        differ = any(index.dimensions != starts.dimensions for index in indices)
        if differ or not are_integers or starts.rank not in (1, 2):
            self.refuse("C2", "offsets and sizes differ in shape or are no lists")
        self.check_groups(size=starts.dimensions[0])
        return output

    def reference(self, *operands):
        members, output, recv_sizes = self.members(), operands[3], operands[5]
        if len(members) != len(recv_sizes):
            problem = f"offsets are for {len(recv_sizes)} members, the group has {len(members)}"
            self.refuse_attribute("G2", problem, "Give offsets and sizes for each member.")
        columns = self.exchange(operands, members)
        index = members.index(current_process().id)
        result, written = output.copy(), np.zeros(len(output), bool)
        for sender, column, announced in zip(members, columns, recv_sizes, strict=True):
            for values, place, wanted in self._updates(column, index, announced):
                count = len(values)
                if count != wanted:
                    _refuse(f"recv_sizes says {wanted} rows where {sender} sends {count}")
                if not 0 <= place <= len(output) - count:
                    end = place + count
                    _refuse(f"{sender} writes rows {place}:{end} of an output of {len(output)}")
                if written[place : place + count].any():
                    _refuse(f"{sender} writes rows that another update has written")
                result[place : place + count] = values
                written[place : place + count] = True
        return result

    def _updates(
        self, column: Sequence[np.ndarray], index: int, announced: np.ndarray
    ) -> Iterator[tuple[np.ndarray, int, int]]:
        """What a member sends here: rows, their place, and how many this member expects."""
        rows, starts, sizes, _, places, _ = column
        lists = [
            np.atleast_1d(numbers)
            for numbers in (starts[index], sizes[index], places[index], announced)
        ]
        updates = np.stack([items.astype(int) for items in lists], 1)
        for start, size, place, wanted in updates.tolist():
            if not 0 <= start <= start + size <= len(rows):
                _refuse(f"rows {start}:{start + size} of an input of {len(rows)} are sent")
            yield rows[start : start + size], place, wanted

    def lowered(self, *operands):
        rows, starts, sizes, output, places, _ = operands
        members, updates = array_shape(starts).dimensions[0], array_shape(starts).size
        count, *rest = array_shape(rows).dimensions
        length = array_shape(output).dimensions[0]
        if not count or not length or not updates:
            return output

        def received(value: Array) -> Array:
            return ops.all_to_all(value, 0, 0, members, **self.groups)

        def across(index: Array) -> Array:
            """What came for each update, for each row of the output."""
            flat = ops.reshape(convert(received(index), _INDEX.element_type), (updates,))
            return ops.broadcast_in_dim(flat, (length, updates), (1,))

        copies = ops.broadcast_in_dim(rows, (members, count, *rest), range(1, len(rest) + 2))
        flat = ops.reshape(received(copies), (members * count, *rest))
        first, size, place = across(starts), across(sizes), across(places)
        grid = Shape("s32", (length, updates))
        row = ops.iota(grid, 0)
        # Where updates stand in `flat`: each member's rows come after those of the one before.
        before = np.arange(updates, dtype=np.int32) // (updates // members) * count
        within = ops.and_(ops.ge(row, place), ops.lt(row, place + size))
        source = row - place + first + ops.broadcast_in_dim(before, grid.dimensions, (1,))
        index = sum_over(ops.select(within, source, zeros(grid)), [1])
        arrived = ops.reduce([within], [splat(False, Shape("pred"))], ops.or_, [1])
        numbers = ops.GatherDimensionNumbers(range(1, len(rest) + 1), (0,), (0,), 1)
        taken = ops.gather(flat, ops.reshape(index, (length, 1)), numbers, (1, *rest))
        return ops.select(ops.broadcast_in_dim(arrived, (length, *rest), (0,)), taken, output)

    def hlo(self, emit, operands, shapes, result):
        rows, starts, sizes, output, *others = operands  # HLO's order is not the builder's
        return super().hlo(emit, [rows, output, starts, sizes, *others], shapes, result)

    def batch(self, operands, dimensions):
        if any(dimensions[at] is not None for at in (1, 2, 4, 5)):
            return super().batch(operands, dimensions)
        size, moved = batch_size(operands, dimensions), list(operands)
        for at in (0, 3):
            moved[at] = move_batch(operands[at], dimensions[at], 1, size)
        return self(*moved), 1


def _refuse(problem: str) -> NoReturn:
    advice = "Offsets and sizes must be inside input and output, and the updates apart."
    raise explain(IndexingError, "ragged_all_to_all", problem, advice=advice)
