"""Threefry-2x32-20, the block cipher of `minixla.random`, as one operation."""

from minixla.core import Operation, builder, register
from minixla.core.attributes import Flag, attribute
from minixla.core.element_types import U32
from minixla_ops.elementwise.families import Elementwise
from minixla_ops.helpers.batch_dimensions import align_batches
from minixla_ops.programs.lowering import Lowered
from minixla_ops.random.random_bit_generator import threefry_rounds


@register
class Threefry2x32(Lowered, Elementwise):
    """Encrypt blocks of two words under keys of two words with Threefry-2x32-20.

    Equal keys and blocks give equal words on every platform. It runs as one program, which XLA
    fuses with producers of blocks and consumers of words.

    Source: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.

    Args:
        key_0, key_1: the words of the key, u32 arrays with equal shapes.
        block_0, block_1: the words of the blocks, with that shape.
        of_keys: whether the results are keys; each key encrypts many blocks.
        is_loop: whether the rounds are a loop, as in JAX's programs for a CPU.

    Returns:
        Two arrays with that shape: the words of the encrypted blocks.

    Example:
        >>> zero = np.uint32(0)
        >>> ops.threefry2x32(zero, zero, zero, zero)
        (Array(1797259609, dtype=uint32), Array(2579123966, dtype=uint32))
    """

    spec_names = ()
    operands = "key_0", "key_1", "block_0", "block_1"
    element_types = frozenset([U32])
    zero_derivative = "its operands are integers"
    of_keys: bool = attribute(Flag(), default=False, hlo=None)
    is_loop: bool = attribute(Flag(), default=False, hlo=None)

    def shape(self, *operands):
        shape = Elementwise.shape(self, *operands)
        return shape, shape

    def lowered(self, key_0, key_1, block_0, block_1):
        return threefry_rounds((key_0, key_1), (block_0, block_1), self.is_loop)

    def batch(self, operands, dimensions):
        aligned, dimension = align_batches(operands, dimensions)
        return self(*aligned), (dimension, dimension)

    def sharding_rule(self, *operands):
        return Operation.sharding_rule(self, *operands)


threefry2x32 = builder(Threefry2x32)
