"""A registered operation: its kernels, its rules and its function."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

from minixla.core import registry
from minixla.core.errors import AttributeValueError, TransformError, explain
from minixla.core.sharding_rule import ShardingRule
from minixla.core.source import find_source
from minixla.core.tracebacks import api_boundary
from minixla.extension import wrappers
from minixla.extension.contexts import callable_of
from minixla.extension.definitions import Definition
from minixla.extension.kernel_table import ANY, REFERENCE, Kernels
from minixla.extension.kernels import ForeignKernel, HostKernel, PythonKernel
from minixla.extension.libraries import register_target
from minixla.extension.operation import CustomOperation, reverse_rule
from minixla.extension.sharding_notation import ShardingNotation

_BATCHING = ("sequential", "expand_dims", "broadcast_all")


class RegisteredOperation:
    """An operation that `register_op` created: its kernels, its rules and its function.

    Attributes:
        name: its name with its namespace.
        definition: its declarations.
        version: the version of the definition, which stored programs keep.
        operation: the class of the operation, as in `minixla_ops`.
        kernels: its kernels.
        library: the path of the library that describes it, if one does.
        shape_function, gradient_rule, forward_rule, batching_rule: the rules, or None.
    """

    def __init__(
        self, definition: Definition, operation: type[CustomOperation], shape_function: Any
    ) -> None:
        self.definition, self.operation = definition, operation
        self.name = operation.name
        self.shape_function: Callable[..., Any] | None = shape_function
        self.gradient_rule: Callable[..., Any] | None = None
        self.forward_rule: Callable[..., Any] | None = None
        self.batching_rule: Any = None
        #: The rule that `sharding_rule` stated; None: it stated that no rule
        #: exists; False: nothing.
        self.sharding_notation: ShardingNotation | Literal[False] | None = False
        #: The rules that probing found, by operation and shapes.
        self.probed_rules: dict[Any, ShardingRule] = {}
        #: Returns types of outputs that no declaration states, from an operation and operand
        #: shapes.
        self.found_types: Callable[..., dict[str, Any]] | None = None
        self.version, self.library = 0, ""
        #: The code that registered it, which replaces it if it runs again.
        self.origin: Hashable = self
        self.kernels = Kernels(definition, operation.builder_name)

    @cached_property
    def caller(self) -> wrappers.Wrapper:
        """The handling of the function's arguments."""
        return wrappers.Wrapper(self.operation, self.definition)

    @cached_property
    def wrapper(self) -> Callable[..., Any]:
        """The function that applies the operation.

        Its parameters are the inputs in order, then the attributes that do not follow from them.
        It returns an array, a list for a list of outputs, or a named tuple for several outputs.
        """
        return api_boundary(self.caller.function(self.operation.__module__))

    @api_boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the operation's results: `wrapper(*args, **kwargs)`."""
        return self.wrapper(*args, **kwargs)

    def __reduce__(self) -> Any:
        return _found, (self.name, self.operation.__module__)

    def __repr__(self) -> str:
        return f"<{self.name}: {self.definition}>"

    def kernel(
        self,
        platform: str,
        function: Callable[..., Any] | None = None,
        *,
        ffi: str | None = None,
        library: Any = None,
        aliases: Mapping[str, str] | None = None,
        inferred: Sequence[str] = (),
        host: bool = False,
        priority: int = 0,
        where: Mapping[str, Any] | None = None,
        **attributes: Any,
    ) -> Any:
        """Register a kernel; this is a decorator unless the kernel is passed.

        A program uses the kernel of its platform, or else of `any`, that supports the attributes:
        the one with the highest priority, then with the narrowest conditions.

        Args:
            platform: `cpu`, `cuda`, `rocm`, `gpu` (both) or `tpu`; `reference`, a function of NumPy
                arrays that defines the meaning; or `any`, a function of traced values that also
                defines shapes, derivatives and batches.
            function: `function(context, *inputs)`, which returns the outputs; see `Context`. For a
                platform it computes with `mx.numpy`, `jax.numpy` or `mx.ops`.
            ffi: compiled code instead of a function: the symbol in `library`, a handler of XLA's
                typed foreign function interface. Without `library`, the name under which
                `jax.ffi.register_ffi_target` knows it. It gets the attributes that do not follow
                from
                inputs: int as int64_t, float as float, bool, string, type as int32_t (XLA's code),
                shape and lists of numbers as Span, others as Dictionary.
            library: the path of a shared library, or the result of `build_op_library`.
            aliases: for compiled code, the output that is written into the memory of an input, by
                the input's name: `{"x": "y"}`. Both are single arrays of one shape and type; the
                code must read an element before it writes it.
            inferred: for compiled code, additional attributes that it gets: some that follow from
                inputs, such as the lengths of several lists.
            host: whether the kernel is the reference, called on the host.
            priority: among kernels that fit, the one with the highest priority is used.
            where: like `attributes`, as a dictionary.
            attributes: the values of attributes that it supports, `T=["float", "int32"]`.

        Returns:
            The decorator; `function` if it is passed; None with `ffi` or `host`.

        Raises:
            AttributeValueError: a platform or attribute is unknown, an attribute cannot have a
                value, two kernels support the same, or the library or symbol does not exist.
        """
        source = find_source(1)
        if not isinstance(where or {}, Mapping) or not isinstance(priority, (int, float)):
            problem = "where must be a dictionary of attribute values, and priority a number"
            details = [f"where = {where!r}", f"priority = {priority!r}"]
            advice = 'Write where={"T": "float"}, priority=1.'
            raise explain(AttributeValueError, self.name, problem, details, advice)
        allowed = self.kernels.allowed({**(where or {}), **attributes})
        platforms = self.kernels.platforms_of(platform)
        is_python = not host and ffi is None
        if [function is None, ffi is None, not host].count(False) > 1:
            problem, advice = "a kernel is given twice", "Pass one of function, ffi and host."
            raise explain(AttributeValueError, self.name, problem, (), advice)
        self._check_aliases(aliases or {}, ffi is not None)
        self._check_inferred(inferred, ffi is not None)
        if not is_python and platforms[0] in (REFERENCE, ANY):
            problem = f"compiled code and the host cannot be a kernel for {platform!r}"
            advice = "They are for one platform: cpu, cuda, rocm, gpu or tpu."
            raise explain(AttributeValueError, self.name, problem, (), advice)

        def register(decorated: Callable[..., Any]) -> Callable[..., Any]:
            callable_of(decorated, self.name, "a kernel")
            for platform in platforms:
                self.kernels.add(
                    PythonKernel(platform, allowed, priority, source, function=decorated)
                )
            return decorated

        if is_python:
            return register if function is None else register(function)
        for platform_name in platforms:
            if host:
                self.kernels.add(HostKernel(platform_name, allowed, priority, source))
            else:
                target = register_target(self.name, str(ffi), library, platform_name)
                options: Any = {"target": target, "aliases": dict(aliases or {})}
                options["inferred"] = tuple(inferred)
                self.kernels.add(ForeignKernel(platform_name, allowed, priority, source, **options))
        return None

    def _check_aliases(self, aliases: Mapping[str, str], is_compiled: bool) -> None:
        """Reject aliases of anything except single arrays, or without compiled code."""
        definition, problem = self.definition, "only compiled code writes into memory of inputs"
        sides = definition.inputs, definition.outputs
        if is_compiled or not aliases:
            pairs = [
                (n, side) for pair in aliases.items() for n, side in zip(pair, sides, strict=True)
            ]
            wrong = [n for n, side in pairs if n not in side or definition.is_list(side[n])]
            if not wrong:
                return
            problem = f"{wrong[0]} is not a single array"
        advice = "Pass aliases with ffi=, as {input: output}, names of single arrays."
        raise explain(AttributeValueError, self.name, problem, [f"aliases = {aliases}"], advice)

    def _check_inferred(self, names: Sequence[str], is_compiled: bool) -> None:
        """Reject names that do not follow from inputs, or that are given without compiled code."""
        wrong = next((name for name in names if name not in self.definition.inferred), None)
        if wrong is not None or (names and not is_compiled):
            problem = f"{wrong} is not an attribute that follows from inputs"
            if wrong is None:
                problem = "only compiled code takes attributes that follow from inputs"
            known = ", ".join(self.definition.inferred) or "none"
            advice = f"Pass inferred with ffi=; these attributes follow from inputs: {known}."
            raise explain(AttributeValueError, self.name, problem, (), advice)

    def composition(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Register `function(context, *inputs)`, which composes other operations; a decorator.

        It is the kernel `any`: shapes, reference, derivative and batches follow from it unless they
        are given. Kernels for platforms only change how it is computed.
        """
        return self.kernel(ANY, function)

    def gradient(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Register `function(context, grad)`, which returns each input's gradient; a decorator.

        `grad` is the gradient of the output, or a list for several outputs. The result is a list
        with one gradient for each input, None for an input without one. It is composed of
        operations, so both modes and all orders follow from it.

        Raises:
            TransformError: a derivative is registered already.
        """
        self._refuse_second("gradient")
        self.gradient_rule = callable_of(function, self.name, "the gradient")
        self.operation.vjp = reverse_rule
        return function

    def jvp(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Register `function(context, tangent)`, which returns each output's tangent; a decorator.

        `tangent` is the tangent of the input, or a list for several inputs, with None for integers.
        The result is the tangent of the output, or a list. Reverse mode transposes it, so it must
        be linear.

        Raises:
            TransformError: a derivative is registered already.
        """
        self._refuse_second("jvp")
        self.forward_rule = callable_of(function, self.name, "the jvp rule")
        return function

    def not_differentiable(self, reason: str = "declared so") -> None:
        """Declare that derivatives are zero, as for piecewise constant functions, and why.

        Raises:
            TransformError: a derivative is registered already.
        """
        self._refuse_second("not_differentiable")
        self.operation.zero_derivative = reason

    def _refuse_second(self, rule: str) -> None:
        zero = self.operation.zero_derivative
        rules = {"gradient": self.gradient_rule, "jvp": self.forward_rule}
        registered = [name for name, rule in rules.items() if rule is not None]
        registered += ["not_differentiable"] if zero is not None else []
        if registered:
            problem = f"{rule} is given, but the operation has {registered[0]} already"
            advice = "Register one of gradient, jvp and not_differentiable."
            raise explain(TransformError, self.name, problem, (), advice)

    def batching(self, rule: Any) -> Any:
        """Set how the operation is batched; also usable as a decorator.

        Without it `vmap` is right for every kernel: it batches the composition, or else runs one
        batch element at a time.

        Args:
            rule: `sequential`: one batch element at a time; `broadcast_all`: one call, in which all
                inputs have a leading batch dimension; `expand_dims`: the same, with a dimension of
                size 1 for inputs without the batch; or `function(context, inputs, dimensions)`,
                which returns the outputs and their batch dimensions (None for an output without
                one).

        Raises:
            AttributeValueError: the rule is unknown.
        """
        if not callable(rule) and rule not in _BATCHING:
            problem = f"batching rule {rule!r} is unknown"
            advice = f"Pass a function, or one of {', '.join(_BATCHING)}."
            raise explain(AttributeValueError, self.name, problem, (), advice)
        self.batching_rule = rule
        return rule

    def sharding_rule(
        self,
        text: str | None,
        *,
        reduction: str | Sequence[str] = (),
        need_replication: str | Sequence[str] = (),
        permutation: str | Sequence[str] = (),
        blocked: str | Sequence[str] = (),
        sizes: Mapping[str, int] | None = None,
    ) -> None:
        """State which dimensions of inputs and outputs are split together over devices.

        Kernels then run on each device's pieces if arrays are sharded along these dimensions.

        `"i j, j k -> i k"` with `reduction="j"` is a matrix product. If no rule is stated, it is
        found by running the reference on random arrays. This shows which blocks of inputs determine
        which block of the outputs, and along which dimensions partial results add up.

        Args:
            text: the factors of each dimension between spaces, and arrays between commas. `(i j)`
                is a dimension of two factors, major first; a leading `...` is any number of
                dimensions. None states that no rule exists, and prevents a search.
            reduction: factors that the operation sums over.
            need_replication: factors along which each device needs all elements.
            permutation: factors along which blocks move from device to device.
            blocked: factors along which shardings do not propagate.
            sizes: the sizes of factors that are not a whole dimension, if they do not follow.

        Raises:
            AttributeValueError: the text is not a rule, or does not contain a named factor.
        """
        if text is None:
            self.sharding_notation = None
            return
        sets = dict(reduction=reduction, need_replication=need_replication, blocked=blocked)
        self.sharding_notation = ShardingNotation.parse(
            text, sizes or {}, permutation=permutation, **sets
        )


def _found(name: str, module: str) -> RegisteredOperation:
    return registry.operation_named(name, module).registered
