"""Tokens (AfterAll), and what the operations share that move data in or out of a program."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from minixla.core import TOKEN, AnyShape, Operation, Shape, TupleShape, register, shape_of
from minixla_ops.helpers import GIVEN
from minixla_ops.helpers.batch_dimensions import batch_member, batch_size

if TYPE_CHECKING:
    from minixla.core.stablehlo_text import Emitter


@register
class AfterAll(Operation):
    """A token that comes after all its operands; of none, a new one. XLA: AfterAll, CreateToken.

    Args:
        tokens: what it comes after.

    Returns:
        A token.

    Checks:
        (C1) the operands are tokens.

    Example:
        >>> joined = lambda: ops.after_all([ops.create_token(), ops.create_token()])
        >>> mx.make_graph(joined)().output_shapes
        (token[],)
    """

    stablehlo_name = "after_all"
    operands = ("tokens...",)
    only_arrays = False
    zero_derivative = "tokens hold no numbers"
    missing_rules = {"batch": "tokens have no batch"}

    def shape(self, *tokens):
        if any(token is not TOKEN for token in tokens):
            self.refuse("C1", "an operand is not a token", "Give what `token=` calls return.")
        return TOKEN

    def reference(self, *tokens):
        return None


def create_token() -> Any:
    """A token that comes after nothing: AfterAll of none. XLA: CreateToken.

    Returns:
        A token.

    Example:
        >>> mx.make_graph(ops.create_token)().output_shapes
        (token[],)
    """
    return AfterAll()()


def optional(token: object) -> Sequence[object]:
    """A token as operands; none for None."""
    return () if token is None else (token,)


class Transfer(Operation):
    """Base class: moves data in or out, in order with other side effects.

    The last operand may be a token, that orders the call after another; a token then is the last
    result too. Without, the order is that of the program's text.
    """

    has_side_effect = True
    only_arrays = False
    #: How many operands stand before the token; None: any number.
    data_count: ClassVar[int | None] = 0

    def split(self, label: str, operands: Sequence[AnyShape]) -> tuple[list[Shape], bool]:
        """The shapes of the data, and whether a token follows; refuses others for check `label`."""
        has_token = TOKEN in operands[-1:]
        data = list(operands[:-1] if has_token else operands)
        wrong = self.data_count not in (None, len(data))
        if wrong or not all(isinstance(shape, Shape) for shape in data):
            advice = "Give arrays, and at most one token, by `token=`."
            self.refuse(label, "an operand is neither data nor its token", advice)
        return data, has_token  # type: ignore[return-value]  # each is a Shape

    #: `at_host(*data)`: what the host does where the program runs here, and what comes in.
    at_host = GIVEN

    def received(self) -> Sequence[Shape]:
        """The shapes of the data that comes in."""
        return ()

    def emit_transfer(
        self, emit: "Emitter", operands: Sequence[str], shapes: Sequence[AnyShape]
    ) -> tuple[list[str], str]:
        """Writes the operation; returns the data and the token."""
        has_token = TOKEN in shapes[-1:]
        # A token of its own leaves the order of the others as it is.
        before = emit.take_token() if emit.calls_host or not has_token else None
        *given, token = operands if has_token else [*operands, before]
        types, received = shapes[: len(given)], self.received()
        if emit.calls_host:
            emit.give_token([token])
            data = emit.host_call(self.at_host, given, types, received, True)
            token = emit.take_token()
        else:
            outer = [*given, token], [*types, TOKEN], [*received, TOKEN]
            name = f"stablehlo.{self.stablehlo_name}"
            *data, token = emit.operation(name, *outer, **self._written("stablehlo"))
        if before is not None:
            emit.give_token([before if has_token else token])
        return data, token

    def stablehlo(self, emit, operands, shapes, results):
        data, token = self.emit_transfer(emit, operands, shapes)
        if results and isinstance(results[0], TupleShape):
            data = emit.operation("stablehlo.tuple", data, self.received(), results[:1])
        return [*data, token][: len(results)]

    def hlo(self, emit, operands, shapes, result):
        # In HLO the last operand always is a token.
        if TOKEN not in shapes[-1:]:
            operands = [*operands, emit.instruction("after-all", [], TOKEN)]
        return super().hlo(emit, operands, shapes, result)


class Outgoing(Transfer):
    """Base class: only data that goes out is batched, the members one after the other."""

    def at_host(self, *data):
        self.reference(*data)
        return ()

    def batch(self, operands, dimensions):
        has_token = shape_of(operands[-1]) is TOKEN
        *data, token = operands if has_token else [*operands, None]
        for index in range(batch_size(operands, dimensions)):
            pairs = zip(data, dimensions, strict=False)
            member = [batch_member(operand, at, index) for operand, at in pairs]
            sent = self.send_member([*member, *optional(token)])
            token = sent if has_token else None
        return self.batched_result(data, dimensions, token)

    def send_member(self, operands: Sequence[object]) -> Any:
        """Sends what a batch has for one member; returns the token, if it has one."""
        return self(*operands)

    def batched_result(
        self, data: Sequence[object], dimensions: Sequence[int | None], token: object
    ) -> Any:
        """The results, and where their batch is, for the last token, None where there is none."""
        return ((), ()) if token is None else (token, None)
