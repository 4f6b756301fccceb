"""Tokens (AfterAll), and the base classes of operations that move data in or out of a program."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from minixla.core import TOKEN, AnyShape, Operation, Shape, TupleShape, register, shape_of
from minixla_ops.helpers import GIVEN
from minixla_ops.helpers.batch_dimensions import batch_member, batch_size

if TYPE_CHECKING:
    from minixla.core.stablehlo_text import Emitter


@register
class AfterAll(Operation):
    """Return a token after all operands; without operands, a new one. XLA: AfterAll, CreateToken.

    Args:
        tokens: the tokens that it follows.

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
            self.refuse(
                "C1", "operands must be tokens", "Pass the tokens that calls with `token=` return."
            )
        return TOKEN

    def reference(self, *tokens):
        return None


def create_token() -> Any:
    """Create a token that follows nothing: AfterAll without operands. XLA: CreateToken.

    Returns:
        A token.

    Example:
        >>> mx.make_graph(ops.create_token)().output_shapes
        (token[],)
    """
    return AfterAll()()


def optional(token: object) -> Sequence[object]:
    """Return a token as a tuple of operands; an empty tuple for None."""
    return () if token is None else (token,)


class Transfer(Operation):
    """Base class of operations that move data in or out, in order with other side effects.

    The last operand may be a token, which orders the call after another call; then the last result
    is also a token. Without a token, the order is that of the program's text.
    """

    has_side_effect = True
    only_arrays = False
    #: The number of operands before the token; None: any number.
    data_count: ClassVar[int | None] = 0

    def split(self, label: str, operands: Sequence[AnyShape]) -> tuple[list[Shape], bool]:
        """Return the shapes of the data, and whether a token follows; raise for check `label`."""
        has_token = TOKEN in operands[-1:]
        data = list(operands[:-1] if has_token else operands)
        wrong = self.data_count not in (None, len(data))
        if wrong or not all(isinstance(shape, Shape) for shape in data):
            advice = "Pass arrays, and at most one token as `token=`."
            self.refuse(label, "operands must be arrays, optionally followed by a token", advice)
        return data, has_token  # type: ignore[return-value]  # each is a Shape

    #: `at_host(*data)`: the host's action if the program runs in this process; returns the input.
    at_host = GIVEN

    def received(self) -> Sequence[Shape]:
        """Return the shapes of the received data."""
        return ()

    def emit_transfer(
        self, emit: "Emitter", operands: Sequence[str], shapes: Sequence[AnyShape]
    ) -> tuple[list[str], str]:
        """Write the operation; return the data and the token."""
        has_token = TOKEN in shapes[-1:]
        # An explicit token does not change the order of other calls.
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
        # In HLO, the last operand is always a token.
        if TOKEN not in shapes[-1:]:
            operands = [*operands, emit.instruction("after-all", [], TOKEN)]
        return super().hlo(emit, operands, shapes, result)


class Outgoing(Transfer):
    """Base class of operations that only send data; batch elements are sent one by one."""

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
        """Send the data of one batch element; return the token, if it has one."""
        return self(*operands)

    def batched_result(
        self, data: Sequence[object], dimensions: Sequence[int | None], token: object
    ) -> Any:
        """Return the results and their batch dimensions for the last token or None."""
        return ((), ()) if token is None else (token, None)
