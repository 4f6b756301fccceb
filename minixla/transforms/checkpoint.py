"""checkpoint: a function whose reverse derivative recomputes intermediate values."""

from collections.abc import Callable, Sequence
from typing import Any

from jax.tree_util import tree_leaves

from minixla.core.argument_kinds import checks_kinds
from minixla.core.attributes import Boolean, Function, Text, attribute
from minixla.core.attributes import Sequence as SequenceOf
from minixla.core.derived import vjp_graphs
from minixla.core.errors import check_arguments
from minixla.core.forward import has_tangent
from minixla.core.graph import Graph, Value, inner_first, part_of, remembered
from minixla.core.operation import Operation
from minixla.core.reverse import ReverseTrace
from minixla.core.shapes import AnyShape
from minixla.core.symbolic_zeros import pullback_by
from minixla.core.tracing import GraphTrace, _state, evaluate_graph, tracing
from minixla.transforms.arguments import Arguments, check_marks, flatten_prefix, in_place_of
from minixla.transforms.custom_calls import CustomVjpCall, Unchanged
from minixla.transforms.sharing import shares
from minixla.transforms.staging import stage
from minixla.transforms.typed_functions import Numbers, Parameters, Result
from minixla.typing import Array, PyTree
from minixla_ops.programs.call import Call, call
from minixla_ops.programs.composite_call import RecomputationBarrier
from minixla_ops.programs.runs_programs import merged, parted

#: Decides which results are stored: `policy(operation, *operand shapes, **attributes)`.
Policy = Callable[..., bool]


class CheckpointName(Unchanged):
    """Return the operand, with a name for policies of `checkpoint`."""

    hlo_name = "copy"
    linear_operands = (0,)
    label: str = attribute(Text(), hlo=None)

    def transpose(self, cotangents, operands, linear):
        return (cotangents,)


class CheckpointCall(Call):
    """A call whose reverse derivative stores at most what `policy` allows, and recomputes the rest.

    Attributes:
        policy: decides which results are stored.
        prevent_cse: for each operand, whether the compiler must not merge both computations on it.
    """

    name = "Checkpoint"
    hlo_name = "call"
    has_user_rule = True
    policy: Policy = attribute(Function(), hlo=None)
    prevent_cse: tuple[bool, ...] = attribute(SequenceOf(Boolean()), hlo=None)

    def entered(self, trace, known):
        entered_operation, taken, out = super().entered(trace, known)
        rows = zip(self.prevent_cse, self.computation.input_shapes, known, strict=True)
        # Other parts of a value, such as its tangent, are never merged.
        flags = [
            flag or part > 0
            for flag, shape, state in rows
            for part in range(len(trace.shapes_of(shape, state)))
        ]
        return entered_operation.replace(prevent_cse=flags), taken, out

    def linearize(self, operands, active):
        kept, backward, wanted = _halves(self.computation.pruned(), self.policy, tuple(active))
        everything = call(kept, *operands)
        count = len(self.computation.outputs)
        results = everything[:count]

        def again(*cotangents: Array) -> Sequence[Array]:
            inputs = [*operands, *cotangents, *everything[count:]]
            if any(self.prevent_cse):
                flags = [*self.prevent_cse, *[True] * (len(inputs) - len(operands))]
                held, free = parted(flags, inputs)
                first = sum(self.prevent_cse)
                start = RecomputationBarrier(tuple(range(first, first + len(cotangents))))
                inputs = merged(flags, start(*held), free)
            return call(backward, *inputs)

        return results, pullback_by(again, results, list(map(has_tangent, results)), wanted)


@remembered
def _halves(
    graph: Graph, policy: Policy, active: tuple[bool, ...]
) -> tuple[Graph, Graph, tuple[bool, ...]]:
    """Return the program with stored values, the reverse derivative, and the active operands."""
    first = _with_kept(graph, policy)
    if _has_reverse_rule(graph):  # this needs another trace
        # Compute the same values by the forward halves of the rules, which have forward
        # derivatives.
        forward, count = vjp_graphs(first, active).forward, len(first.outputs)
        first = Graph(
            forward.inputs, forward.instructions, forward.outputs[:count], graph.name
        ).pruned()
    # Recomputed values are not displayed again.
    return (first, *_backward(_with_kept(graph.silent(), policy), len(graph.outputs), active))


def _with_kept(graph: Graph, policy: Policy) -> Graph:
    """Return the program with the values that the policy stores as additional results."""
    kept = [
        value
        for step in graph.instructions
        if step.op.linearize is None
        and policy(step.op, *(value.shape for value in step.operands), **step.op.values)
        for value in step.results
    ]
    return Graph(graph.inputs, graph.instructions, [*graph.outputs, *kept], graph.name)


@inner_first
def _has_reverse_rule(graph: Graph) -> bool:
    is_direct = any(type(step.op) is CustomVjpCall for step in graph.instructions)
    return is_direct or any(map(_has_reverse_rule, graph.computations))


def _backward(graph: Graph, count: int, active: Sequence[bool]) -> tuple[Graph, tuple[bool, ...]]:
    """Return the reverse derivative from primals, cotangents and stored values."""
    recorder, shapes = GraphTrace(_state.trace), graph.output_shapes[:count]
    trace, primals = ReverseTrace(recorder), list(map(recorder.add_input, graph.input_shapes))
    pairs = zip(active, primals, strict=True)
    inputs = [trace.add_input(x) if flag and has_tangent(x) else x for flag, x in pairs]
    cotangents = [recorder.add_input(shape) if has_tangent(shape) else None for shape in shapes]
    with tracing(recorder):
        with tracing(trace):
            outputs = evaluate_graph(graph, inputs)
        kept = [recorder.capture(x.value if trace.is_own(x) else x) for x in outputs[count:]]
        pulled = trace.pull(outputs[:count], cotangents, inputs)
        gradients = [gradient for gradient in pulled if gradient is not None]
        made = recorder.graph(gradients, f"checkpoint_{graph.name}")
    wanted = tuple([gradient is not None for gradient in pulled])
    return (_given(made, kept) if kept else made).pruned(), wanted


def _given(graph: Graph, values: Sequence[Value]) -> Graph:
    """Turn some values of a program into additional inputs."""
    named = [value.instruction and type(value.instruction.op) is CheckpointName for value in values]
    # A named value is represented by its operand.
    pairs: Any = zip(values, named, strict=True)
    originals = [value.instruction.operands[0] if flag else value for value, flag in pairs]
    return part_of([*graph.inputs, *originals], graph.instructions, graph.outputs, graph.name)


class checkpoint_policies:
    """Policies that decide which results `checkpoint` stores (JAX: checkpoint_policies)."""

    @staticmethod
    def nothing_saveable(operation: Operation, *shapes: AnyShape, **attributes: object) -> bool:
        """Store only the arguments."""
        return False

    @staticmethod
    def everything_saveable(operation: Operation, *shapes: AnyShape, **attributes: object) -> bool:
        """Store every result."""
        return True

    @staticmethod
    def dots_saveable(operation: Operation, *shapes: AnyShape, **attributes: object) -> bool:
        """Store the results of matrix products."""
        return operation.name in ("Dot", "DotGeneral")

    @staticmethod
    def dots_with_no_batch_dims_saveable(
        operation: Operation, *shapes: AnyShape, **attributes: object
    ) -> bool:
        """Store the results of matrix products without batch dimensions."""
        numbers = attributes.get("dimension_numbers")
        is_batched = bool(getattr(numbers, "lhs_batch_dimensions", ()))
        return checkpoint_policies.dots_saveable(operation) and not is_batched

    checkpoint_dots = dots_saveable
    checkpoint_dots_with_no_batch_dims = dots_with_no_batch_dims_saveable

    @staticmethod
    def save_only_these_names(*names: str) -> Policy:
        """Return a policy that stores the values that `checkpoint_name` gave one of `names`."""
        return lambda op, *shapes, **options: type(op) is CheckpointName and op.label in names

    @staticmethod
    def save_anything_except_these_names(*names: str) -> Policy:
        """Return a policy that stores all values except those with a name in `names`."""
        return lambda op, *shapes, **options: (
            type(op) is not CheckpointName or op.label not in names
        )

    @staticmethod
    def save_any_names_but_these(*names: str) -> Policy:
        """Return a policy that stores values with a name from `checkpoint_name` not in `names`."""
        return lambda op, *shapes, **options: type(op) is CheckpointName and op.label not in names

    @staticmethod
    def save_from_both_policies(first: Policy, second: Policy) -> Policy:
        """Return a policy that stores the values that either policy stores."""
        return lambda *args, **options: first(*args, **options) or second(*args, **options)


@checks_kinds
def checkpoint_name(x: Result, name: str) -> Result:
    """Name `x` for policies of `checkpoint` (JAX: checkpoint_name).

    Args:
        x: an array.
        name: the name.

    Returns:
        An array like `x`.

    Example:
        >>> keep = mx.checkpoint_policies.save_only_these_names("sine")
        >>> f = lambda x: mx.checkpoint_name(mx.numpy.sin(x), "sine") ** 2
        >>> mx.grad(mx.checkpoint(f, policy=keep))(1.0)
        Array(0.90929735, dtype=float32, weak_type=True)
    """
    return CheckpointName(name)(x)


@shares
@checks_kinds
def checkpoint(
    fun: Callable[Parameters, Result],
    prevent_cse: bool | Sequence[PyTree] = True,
    policy: Policy | None = None,
    static_argnums: Numbers = (),
) -> Callable[Parameters, Result]:
    """Recompute intermediate values in the reverse derivative of `fun` (JAX: checkpoint).

    Args:
        fun: a function of pytrees of arrays.
        prevent_cse: whether to prevent the compiler from merging both computations, as required
            inside `jit`. A tuple of booleans, or of trees of booleans that are prefixes of the
            arguments, sets it by argument. With keywords, pass a pair of this tuple and a dict.
        policy: decides which results are stored, see `checkpoint_policies`; default: none.
        static_argnums: positions of arguments that are passed unchanged.

    Returns:
        A function with the same arguments and results.

    Raises:
        AttributeValueError: `fun` has no argument at a position in `static_argnums`.

    Example:
        >>> mx.grad(mx.checkpoint(lambda x: mx.numpy.sin(mx.numpy.sin(x))))(0.0)
        Array(1., dtype=float32, weak_type=True)
    """
    is_right = policy is None or callable(policy)
    check_arguments(
        "checkpoint",
        policy=(policy, is_right, "one of mx.checkpoint_policies, or None"),
        prevent_cse=(prevent_cse, _are_flags(prevent_cse), "a bool, or a tuple of trees of bools"),
    )
    check_marks("checkpoint", fun, static_argnums=static_argnums)

    @in_place_of(fun, "checkpoint")
    def checkpointed(*args: PyTree, **kwargs: PyTree) -> PyTree:
        arguments = Arguments.besides("checkpoint", fun, args, kwargs, static_argnums)
        staged = stage(arguments.apply, arguments.signature(), arguments.name)
        keeps = policy or checkpoint_policies.nothing_saveable
        tree = (arguments.given, kwargs) if kwargs else arguments.given
        flags = _flags(prevent_cse, tree, len(staged.graph.inputs))
        operation = CheckpointCall(staged.graph, keeps, flags)
        return staged.results(operation(*staged.read, *arguments.leaves))

    return checkpointed


def _is_bool(value: object) -> bool:
    return isinstance(value, bool)


def _are_flags(prevent_cse: object) -> bool:
    flags = tree_leaves(tuple(prevent_cse)) if isinstance(prevent_cse, Sequence) else [prevent_cse]
    return all(map(_is_bool, flags))


def _flags(prevent_cse: bool | Sequence[PyTree], tree: PyTree, count: int) -> tuple[bool, ...]:
    """Return the flag of each input of the program; closed-over values come first."""
    if not isinstance(prevent_cse, Sequence):
        return (prevent_cse,) * count
    prefix = tuple(prevent_cse)
    flags = flatten_prefix("checkpoint", "prevent_cse", tree, prefix, "a bool", _is_bool)
    return (False,) * (count - len(flags)) + tuple(flags)
