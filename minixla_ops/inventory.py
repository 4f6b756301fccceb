"""The 153 entries of XLA's operation semantics, in their order, and how each is built."""

import keyword
import re
from typing import NamedTuple

_NAMES = (
    "Abs Cbrt Ceil Clz Cos Cosh Erf Exp Expm1 "  # language: names
    "Floor Imag IsFinite Log Log1p Logistic Neg Not "
    "PopulationCount Real Round RoundNearestAfz RoundNearestEven Rsqrt Sign Sin Sqrt Tan Tanh "
    "Add Sub Mul Div Rem Pow Max Min And Or Xor ShiftLeft ShiftRightArithmetic "
    "ShiftRightLogical Atan2 Complex Compare Eq Ne Ge Gt Le Lt EqTotalOrder NeTotalOrder "
    "GeTotalOrder GtTotalOrder LeTotalOrder LtTotalOrder Clamp Select Map ConvertElementType "
    "BitcastConvertType ReducePrecision Parameter Constant Iota RngNormal RngUniform "
    "RngBitGenerator Broadcast BroadcastInDim Collapse Reshape Reshape_(explicit) "
    "DynamicReshape Transpose Rev ConcatInDim Pad Slice DynamicSlice DynamicUpdateSlice "
    "Gather Scatter GetDimensionSize SetDimensionSize Reduce ReduceWindow SelectAndScatter "
    "Scan Sort TopK Dot DotGeneral ScaledDot RaggedDot Conv ConvWithGeneralPadding "
    "ConvWithGeneralDimensions ConvGeneral ConvGeneralDilated Cholesky TriangularSolve Fft "
    "BatchNormTraining BatchNormInference BatchNormGrad Call CompositeCall CustomCall "
    "Conditional While OptimizationBarrier Tuple GetTupleElement AfterAll AllGather AllReduce "
    "CrossReplicaSum AllToAll RaggedAllToAll CollectiveBroadcast CollectivePermute "
    "ReduceScatter ReplicaId PartitionID Infeed Outfeed Send SendDone Recv RecvDone "
    "SendWithTokens SendToHost RecvWithTokens RecvToHost AddDependency AllGatherStart "
    "AllGatherDone AllReduceStart AllReduceDone AsyncStart AsyncUpdate AsyncDone Bitcast "
    "CollectivePermuteStart CollectivePermuteDone Copy CopyStart CopyDone Domain Fusion "
    "RngGetAndUpdateState"
)
# How an entry is built; all other entries are built by users.
_BUILT_BY = {
    **dict.fromkeys((129, 131, 133, 134, 135, 136), "communication primitive"),
    **dict.fromkeys((126, 130, 132, *range(137, 154)), "dump-only"),
}


class Entry(NamedTuple):
    """One entry: its number, its name, and how it is built.

    `built_by` is `user`, `communication primitive` or `dump-only` (seen in XLA's dumps).
    """

    number: int
    name: str
    built_by: str

    @property
    def builder(self) -> str:
        """The name of its builder function, in snake_case."""
        words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+", self.name)
        name = "_".join(words).lower()
        return f"{name}_" if keyword.iskeyword(name) else name


#: Every entry, in the order of XLA's page.
ENTRIES = tuple(
    Entry(number, name.replace("_", " "), _BUILT_BY.get(number, "user"))
    for number, name in enumerate(_NAMES.split(), 1)
)
