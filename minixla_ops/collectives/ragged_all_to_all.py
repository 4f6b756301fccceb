"""RaggedAllToAll: exchange varying numbers of rows between the members of a group."""

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
    """Send slices of rows to each member, which writes them to its output. XLA: RaggedAllToAll.

    Rows [input_offsets[i], + send_sizes[i]) of input go to member i of the group. It stores them as
    rows [output_offsets[i], + send_sizes[i]) of its output; output_offsets are those of the sender.
    With offsets and sizes of two dimensions, this is done for each update u. The result is output
    with all received rows written. recv_sizes[i] is the number of rows that member i sends here.

    In NumPy, rows outside input or output, rows written twice, and wrong recv_sizes raise errors;
    elsewhere, the result is undefined. It runs as a program of all_to_all and gather.

    Args:
        input: an array; its rows are sent.
        input_offsets: s32[members] or s32[members, updates]: the first row for each member.
        send_sizes: the number of rows for each member, with the same shape.
        output: an array with rows like those of input.
        output_offsets: the first row in the output of each member, with the same shape.
        recv_sizes: the number of rows that each member sends here, with the same shape.
        replica_groups, channel_id: the groups; see Collective.

    Returns:
        An array with the shape of output.

    Checks:
        (C1) input and output have equal element types, and equal dimensions except for the first.
        (C2) offsets and sizes are integers with equal shapes, [members] or [members, updates].
        (G1), (G2), (G4) see Collective; the size is that of the first dimension of the offsets.

    Raises:
        IndexingError: in NumPy, rows are out of range or sizes do not match.

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
            self.refuse("C1", "input and output must have equal rows")
        indices = starts, sizes, places, counts
        are_integers = all(index.element_type.is_integer for index in indices)
        differ = any(index.dimensions != starts.dimensions for index in indices)
        if differ or not are_integers or starts.rank not in (1, 2):
            self.refuse("C2", "offsets and sizes must be integers with equal shapes of rank 1 or 2")
        self.check_groups(size=starts.dimensions[0])
        return output

    def reference(self, *operands):
        members, output, recv_sizes = self.members(), operands[3], operands[5]
        if len(members) != len(recv_sizes):
            problem = f"offsets are for {len(recv_sizes)} members, but the group has {len(members)}"
            self.refuse_attribute("G2", problem, "Pass offsets and sizes for each member.")
        columns = self.exchange(operands, members)
        index = members.index(current_process().id)
        result, written = output.copy(), np.zeros(len(output), bool)
        for sender, column, announced in zip(members, columns, recv_sizes, strict=True):
            for values, place, wanted in self._updates(column, index, announced):
                count = len(values)
                if count != wanted:
                    _refuse(f"recv_sizes has {wanted} rows, but {sender} sends {count}")
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
        """Yield a member's updates for this one: rows, their position, and the announced number."""
        rows, starts, sizes, _, places, _ = column
        lists = [
            np.atleast_1d(numbers)
            for numbers in (starts[index], sizes[index], places[index], announced)
        ]
        updates = np.stack([items.astype(int) for items in lists], 1)
        for start, size, place, wanted in updates.tolist():
            if not 0 <= start <= start + size <= len(rows):
                _refuse(f"rows {start}:{start + size} are outside the input of {len(rows)} rows")
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
            """Return the received value of each update, for each row of the output."""
            flat = ops.reshape(convert(received(index), _INDEX.element_type), (updates,))
            return ops.broadcast_in_dim(flat, (length, updates), (1,))

        copies = ops.broadcast_in_dim(rows, (members, count, *rest), range(1, len(rest) + 2))
        flat = ops.reshape(received(copies), (members * count, *rest))
        first, size, place = across(starts), across(sizes), across(places)
        grid = Shape("s32", (length, updates))
        row = ops.iota(grid, 0)
        # The positions of updates in `flat`: each member's rows follow those of the previous one.
        before = np.arange(updates, dtype=np.int32) // (updates // members) * count
        within = ops.and_(ops.ge(row, place), ops.lt(row, place + size))
        source = row - place + first + ops.broadcast_in_dim(before, grid.dimensions, (1,))
        index = sum_over(ops.select(within, source, zeros(grid)), [1])
        arrived = ops.reduce([within], [splat(False, Shape("pred"))], ops.or_, [1])
        numbers = ops.GatherDimensionNumbers(range(1, len(rest) + 1), (0,), (0,), 1)
        taken = ops.gather(flat, ops.reshape(index, (length, 1)), numbers, (1, *rest))
        return ops.select(ops.broadcast_in_dim(arrived, (length, *rest), (0,)), taken, output)

    def hlo(self, emit, operands, shapes, result):
        rows, starts, sizes, output, *others = operands  # HLO's operand order differs
        return super().hlo(emit, [rows, output, starts, sizes, *others], shapes, result)

    def batch(self, operands, dimensions):
        if any(dimensions[at] is not None for at in (1, 2, 4, 5)):
            return super().batch(operands, dimensions)
        size, moved = batch_size(operands, dimensions), list(operands)
        for at in (0, 3):
            moved[at] = move_batch(operands[at], dimensions[at], 1, size)
        return self(*moved), 1


def _refuse(problem: str) -> NoReturn:
    advice = "Offsets and sizes must be inside input and output, and updates must not overlap."
    raise explain(IndexingError, "ragged_all_to_all", problem, advice=advice)
