"""CustomCall: user code inside a program, identified by its target name."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import minixla_ops as ops
from minixla.core import Operation, register
from minixla.core import attributes as kinds
from minixla.core.attributes import Boolean, Integer, Integers, Text, attribute
from minixla.core.builders import builds, operand_list
from minixla.core.errors import AttributeValueError, ShapeError, TransformError, explain
from minixla.core.hlo_text import quoted as hlo_quoted
from minixla.core.shapes import AnyShape, Shape, ShapeList, TokenShape, TupleShape
from minixla.core.sharding_rule import ShardingRule
from minixla.core.stablehlo_text import Layouts, quoted
from minixla_ops.helpers.shorthand import listed
from minixla_ops.host.target_sharding import target_rule
from minixla_ops.programs.composite_call import dictionary_text
from minixla_ops.programs.lowering import kept

#: The Python functions registered for targets.
_FUNCTIONS: dict[str, Callable[..., object]] = {}

#: The call with which users define the meaning of a target.
REGISTERING = "minixla_ops.register_custom_call(target_name, function)"

#: XLA's targets that call a Python function by its id.
_CALLBACK = r"xla_\w*python_\w*callback"


class _Options(kinds.Attribute):
    """Named attributes of the target, as a tuple of pairs."""

    description = "attributes: names of bool, int, float, str, bytes or NumPy scalars and vectors"

    def canonical(self, value: Any) -> tuple[tuple[str, Any], ...]:
        pairs = value.items() if isinstance(value, Mapping) else value
        return tuple(sorted((str(name), _option(name, option)) for name, option in pairs))


def _option(name: str, value: object) -> object:
    """Return an option's value; an array as the name of its dtype and its values."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.$]*", name):
        raise ValueError(f"{name!r} is not a valid attribute name")
    # A tuple is canonical already. Some NumPy scalars are also Python scalars.
    if isinstance(value, (bool, int, float, str, bytes, tuple)) and not isinstance(
        value, np.generic
    ):
        return value
    array = np.asarray(value)
    if array.ndim > 1 or array.dtype.kind not in "biuf":
        raise TypeError(f"{name} must be a bool, int, float, str or a vector of numbers")
    return array.dtype.name, tuple(array.tolist()) if array.ndim else array.item()


class _ShapeOf(kinds.ShapeAttribute):
    accepts = Shape, TokenShape
    description = "the Shape of an array"


@register
class CustomCall(Operation):
    """Call user code by the name of its target. XLA: CustomCall.

    The reference evaluator calls the Python function of `register_custom_call`. If there is one,
    the engine calls it on the host. Otherwise, the target must be registered with XLA
    (`jax.ffi.register_ffi_target`), and gets `attributes` as its attributes.

    Args:
        target_name: the name of the target.
        args: the arguments, values of any shapes.
        shape: the shape of the result; for several results, a sequence of shapes or a tuple shape.
        attributes: names and values that are passed to the code.
        has_side_effect: whether the call must not be dropped or repeated.
        api_version: the version of XLA's interface. 4 is typed; others take a string, the
            attribute `backend_config`.

    Returns:
        An array of `shape`; a Python tuple for a sequence, a tuple value for a tuple shape.

    Attributes:
        operand_layouts, result_layouts: for each value, its dimensions from the fastest to the
            slowest in memory; default: row-major.
        stated_rule: the sharding rule that the program states; default: that of the target.

    Checks:
        (C1) target_name is not empty.

    Example:
        >>> ops.register_custom_call("example.half", lambda x: x / 2)
        >>> ops.custom_call("example.half", [np.float32([1, 2])], mx.Shape("f32", (2,)))
        Array([0.5, 1. ], dtype=float32)
    """

    no_derivative = (
        "the derivative of user code is unknown: give the calling function a custom rule"
    )
    operands = ("args...",)
    only_arrays = False
    target_name: str = attribute(Text(), stablehlo="call_target_name")
    shapes: tuple[AnyShape, ...] = attribute(kinds.Sequence(_ShapeOf()))
    options: tuple[tuple[str, Any], ...] = attribute(_Options(), default=())
    has_side_effect: bool = attribute(Boolean(), default=False)  # type: ignore[assignment]  # of a call
    api_version: int = attribute(Integer(1, 4), default=4)
    operand_layouts: Layouts | None = attribute(kinds.Sequence(Integers()), default=None)
    result_layouts: Layouts | None = attribute(kinds.Sequence(Integers()), default=None)
    stated_rule: ShardingRule | None = attribute(
        kinds.Instance(ShardingRule), default=None, stablehlo=None, hlo=None
    )
    #: The shardings of a call without results, which has no value to attach them to.
    out_shardings: tuple[object, ...] | None = attribute(
        kinds.Attribute(), default=None, stablehlo=None, hlo=None
    )

    def shape(self, *args):
        if not self.target_name:
            self.refuse_attribute(
                "C1", "target_name must not be empty", "Pass the name of the code to call."
            )
        return self.shapes

    def reference(self, *args):
        self._refuse_callback()
        function = _FUNCTIONS.get(self.target_name)
        if function is None:
            problem = f"the target {self.target_name!r} has no Python function"
            details = [f"registered: {', '.join(sorted(_FUNCTIONS)) or 'none'}"]
            advice = f"Register a function: {REGISTERING}."
            raise explain(TransformError, "custom_call", problem, details, advice)
        options = {
            name: np.asarray(option[1], option[0])[()] if isinstance(option, tuple) else option
            for name, option in self.options
        }
        outcome = function(*args, **options)
        results = outcome if isinstance(outcome, (tuple, list)) else (outcome,)
        arrays = tuple(map(np.asarray, results))
        wanted = [(shape.dimensions, shape.dtype) for shape in self.shapes]  # type: ignore[union-attr]  # no tuples
        if [(array.shape, array.dtype) for array in arrays] != wanted:
            problem = f"the function of {self.target_name!r} returned other shapes than declared"
            given = [f"{array.dtype}{list(array.shape)}" for array in arrays]
            details = [
                f"declared: {', '.join(map(str, self.shapes))}",
                f"returned: {', '.join(given)}",
            ]
            advice = "Return one array for each shape, with its element type and dimensions."
            raise explain(ShapeError, "custom_call", problem, details, advice)
        return arrays

    def _refuse_callback(self) -> None:
        """Raise an error for a Python callback of the process that wrote the program."""
        target = self.target_name
        if re.fullmatch(_CALLBACK, target) and not is_registered(target):
            problem = f"the target {target!r} calls a Python function of another process"
            advice = "It cannot be called in another process: remove pure_callback, io_callback and"
            advice = f"{advice} debug prints from the program."
            raise explain(TransformError, "custom_call", problem, advice=advice)

    def stablehlo(self, emit, operands, shapes, results):
        self._refuse_callback()
        if is_registered(self.target_name) and emit.calls_host:
            return emit.host_call(self.reference, operands, shapes, results, self.has_side_effect)
        config = _backend_config(self)
        stated = self._stated(shapes, results)
        hints = self.hints(shapes, results) if emit.calls_host else ""
        if self.out_shardings and not emit.calls_host:
            hints = f" {{sdy.sharding = {emit.shardings(self.out_shardings)}}}"
        told = {
            "layouts": (self.operand_layouts, self.result_layouts),
            "has_side_effect": self.has_side_effect,
            "api_version": self.api_version,
            "hints": stated.hint() if stated else hints,
        }
        return emit.custom_call(self.target_name, operands, shapes, results, config, **told)

    def sharding_rule(self, *operands):
        stated = self._stated(operands, self.shapes)
        return stated or target_rule(self.target_name, operands, self.shapes)

    def _stated(self, operands: ShapeList, results: ShapeList) -> ShardingRule | None:
        """Return the stated rule if its ranks match; those of a batch of calls differ."""
        rule = self.stated_rule
        tensors = (*rule.operands, *rule.results) if rule else ()
        ranks = [getattr(shape, "rank", 0) for shape in (*operands, *results)]
        return rule if [*map(len, tensors)] == ranks else None

    def hints(self, shapes: Sequence[AnyShape], results: Sequence[AnyShape]) -> str:
        """Return additional text for compilers if the program will run; see `Emitter.operation`."""
        return ""

    def hlo_attributes(self, shapes):
        return {
            "custom_call_target": hlo_quoted(self.target_name),
            "custom_call_has_side_effect": self.has_side_effect or None,
            "api_version": "API_VERSION_TYPED_FFI" if self.api_version == 4 else None,
            "backend_config": dictionary_text(self.options) if self.options else None,
        }


@kept
def _backend_config(operation: CustomCall) -> str:
    """Return the configuration of the target in MLIR's notation."""
    if operation.api_version == 4:
        return dictionary_text(operation.options)
    return quoted(str(dict(operation.options).get("backend_config", "")))


def is_registered(target_name: str) -> bool:
    """Return whether a target has a Python function."""
    return target_name in _FUNCTIONS


def register_custom_call(target_name: str, function: Callable[..., object]) -> None:
    """Register what a target computes, for the reference evaluator and the engine.

    minixla: see `custom_call`.

    Args:
        target_name: the target of `custom_call`.
        function: takes the arguments as NumPy arrays and the attributes as keywords. It returns one
            array, or a tuple with one array for each result. It must not keep or change arguments.

    Raises:
        AttributeValueError: another function is registered under this name.

    Example:
        >>> ops.register_custom_call("example.twice", lambda x: 2 * x)
        >>> ops.custom_call("example.twice", [np.float32([1, 2])], mx.Shape("f32", (2,)))
        Array([2., 4.], dtype=float32)
    """
    target_name = CustomCall.fields["target_name"].checked("register_custom_call", target_name)
    if _FUNCTIONS.setdefault(target_name, function) is not function:
        problem = f"the target {target_name!r} already has a function"
        details = [f"registered: {_FUNCTIONS[target_name]!r}", f"new: {function!r}"]
        advice = "Targets are global in the process: prefix the name with the project's name."
        raise explain(AttributeValueError, "register_custom_call", problem, details, advice)


@builds(CustomCall)
def custom_call(
    target_name: str,
    args: Sequence[object],
    shape: Shape | TupleShape | Sequence[Shape],
    attributes: Mapping[str, object] | None = None,
    has_side_effect: bool = False,
    api_version: int = 4,
) -> Any:
    is_single = isinstance(shape, Shape)
    shapes = (shape,) if is_single else listed(getattr(shape, "elements", shape))
    declared: Any = shapes, {} if attributes is None else attributes, has_side_effect, api_version
    results = CustomCall(target_name, *declared)(*operand_list(args, "custom_call", "args"))
    if isinstance(shape, TupleShape):
        return ops.tuple(results)
    return results[0] if is_single else results
