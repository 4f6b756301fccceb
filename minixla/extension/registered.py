"""An operation that is registered: its kernels, its rules and its function."""

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
    """An operation that `register_op` made: its kernels, its rules and its function.

    Attributes:
        name: its name with its namespace.
        definition: its declarations.
        version: of the definition, which stored programs keep.
        operation: the class of the operation, as `minixla_ops` has them.
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
        #: What `sharding_rule` stated; None: that there is none; False: nothing.
        self.sharding_notation: ShardingNotation | Literal[False] | None = False
        #: Those that probing found, by operation and shapes.
        self.probed_rules: dict[Any, ShardingRule] = {}
        #: Types of outputs that no declaration says: of an operation, and shapes of operands.
        self.found_types: Callable[..., dict[str, Any]] | None = None
        self.version, self.library = 0, ""
        #: The code that registered it, which replaces it if it runs again.
        self.origin: Hashable = self
        self.kernels = Kernels(definition, operation.builder_name)

    @cached_property
    def caller(self) -> wrappers.Wrapper:
        """What the function does with its arguments."""
        return wrappers.Wrapper(self.operation, self.definition)

    @cached_property
    def wrapper(self) -> Callable[..., Any]:
        """The function that applies the operation.

        Its parameters are the inputs in order, then the attributes that do not follow from them;
        it gives an array, a list for a list of outputs, a named tuple for several outputs.
        """
        return api_boundary(self.caller.function(self.operation.__module__))

    @api_boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The operation's results: `wrapper(*args, **kwargs)`."""
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
        """Registers a kernel: a decorator, unless it is given here.

        A program is made with the kernel of its platform, or else of `any`, that fits the
        attributes: with the highest priority, then with the narrowest conditions.

        Args:
            platform: `reference` (a function of NumPy's arrays: the meaning), `any` (a function of
                traced values that defines shapes, derivatives and batches, too), `cpu`, `cuda`,
                `rocm`, `gpu` (both), `tpu`.
            function: `function(context, *inputs)`, which gives the outputs; see `Context`. For a
                platform it computes with `mx.numpy`, `jax.numpy` or `mx.ops`.
            ffi: in its place, compiled code: the symbol in `library`, a handler of XLA's typed
                foreign function interface; without `library` the name under which
                `jax.ffi.register_ffi_target` knows it. It gets the attributes that do not follow
                from inputs: int as int64_t, float as float, bool, string, type as int32_t (XLA's
                number of it), shape and lists of numbers as Span, others as Dictionary.
            library: the path of a shared library, or what `build_op_library` gives.
            aliases: of compiled code, the output that is written into the memory of an input, by
                the input's name: `{"x": "y"}`. Both are single arrays of one shape and type; the
                code must read an element before it writes it.
            inferred: of compiled code, the attributes that it gets besides: of those that follow
                from inputs, such as the lengths of several lists.
            host: whether the kernel is the reference, called on the host.
            priority: of kernels that fit, that with the highest is taken.
            where: values of attributes for which it is, as `attributes`.
            attributes: for which values of attributes it is, `T=["float", "int32"]`.

        Returns:
            The decorator; with `function` that, with `ffi` or `host` None.

        Raises:
            AttributeValueError: unknown platforms or attributes, values that they cannot have, two
                kernels for the same, no such library or symbol.
        """
        source = find_source(1)
        if not isinstance(where or {}, Mapping) or not isinstance(priority, (int, float)):
            problem = "a kernel is for values of attributes, and has a number for its priority"
            details = [f"where = {where!r}", f"priority = {priority!r}"]
            advice = 'Write where={"T": "float"}, priority=1.'
            raise explain(AttributeValueError, self.name, problem, details, advice)
        allowed = self.kernels.allowed({**(where or {}), **attributes})
        platforms = self.kernels.platforms_of(platform)
        is_python = not host and ffi is None
        if [function is None, ffi is None, not host].count(False) > 1:
            problem, advice = "a kernel is given twice", "Give one of function, ffi and host."
            raise explain(AttributeValueError, self.name, problem, (), advice)
        self._check_aliases(aliases or {}, ffi is not None)
        self._check_inferred(inferred, ffi is not None)
        if not is_python and platforms[0] in (REFERENCE, ANY):
            problem = f"compiled code and the host are no kernel for {platform!r}"
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
        """Refuses aliases of what is no single array, or of kernels that are no compiled code."""
        definition, problem = self.definition, "only compiled code writes into memory of inputs"
        sides = definition.inputs, definition.outputs
        if is_compiled or not aliases:
            pairs = [
                (n, side) for pair in aliases.items() for n, side in zip(pair, sides, strict=True)
            ]
            wrong = [n for n, side in pairs if n not in side or definition.is_list(side[n])]
            if not wrong:
                return
            problem = f"{wrong[0]} is no single array"
        advice = "Give aliases with ffi=, as {input: output}, names of single arrays."
        raise explain(AttributeValueError, self.name, problem, [f"aliases = {aliases}"], advice)

    def _check_inferred(self, names: Sequence[str], is_compiled: bool) -> None:
        """Refuses what follows from no input, or where the kernel is no compiled code."""
        wrong = next((name for name in names if name not in self.definition.inferred), None)
        if wrong is not None or (names and not is_compiled):
            problem = f"{wrong} is no attribute that follows from inputs"
            if wrong is None:
                problem = "only compiled code must be told what follows from inputs"
            known = ", ".join(self.definition.inferred) or "none"
            advice = f"Give inferred with ffi=; these attributes follow from inputs: {known}."
            raise explain(AttributeValueError, self.name, problem, (), advice)

    def composition(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Decorator: `function(context, *inputs)` is the operation, by others.

        It is the kernel `any`: shapes, reference, derivative and batches follow from it where
        nothing else is given; kernels for platforms only change how it is computed.
        """
        return self.kernel(ANY, function)

    def gradient(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Decorator: `function(context, grad)` gives the gradient of each input.

        `grad` is that of the output; of several outputs a list. The result is a list with one
        for each input, None where an input has none. It is made of operations: both modes, and
        all orders, follow from it.

        Raises:
            TransformError: there is a derivative already.
        """
        self._refuse_second("gradient")
        self.gradient_rule = callable_of(function, self.name, "the gradient")
        self.operation.vjp = reverse_rule
        return function

    def jvp(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Decorator: `function(context, tangent)` gives the tangent of each output.

        `tangent` is that of the input; of several inputs a list, None for integers. The result is
        that of the output, or a list. Reverse mode is its transpose: it must be linear.

        Raises:
            TransformError: there is a derivative already.
        """
        self._refuse_second("jvp")
        self.forward_rule = callable_of(function, self.name, "the jvp rule")
        return function

    def not_differentiable(self, reason: str = "declared so") -> None:
        """Says that derivatives are zero, as of what is piecewise constant, and why.

        Raises:
            TransformError: there is a derivative already.
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
            advice = "One of gradient, jvp and not_differentiable says what the derivative is."
            raise explain(TransformError, self.name, problem, (), advice)

    def batching(self, rule: Any) -> Any:
        """Says how the operation is batched; also as a decorator.

        Without it `vmap` is right for every kernel: the composition over the batch, else members
        one by one.

        Args:
            rule: `sequential`: members one by one; `broadcast_all`: one call, in which all inputs
                have the batch in front; `expand_dims`: the same, with a dimension of size 1 for
                inputs without the batch; or `function(context, inputs, dimensions)`, which gives
                the outputs and their batch dimensions (None: none).

        Raises:
            AttributeValueError: there is no such rule.
        """
        if not callable(rule) and rule not in _BATCHING:
            problem = f"there is no batching rule {rule!r}"
            advice = f"Give a function, or one of {', '.join(_BATCHING)}."
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
        """States which dimensions of inputs and outputs are split together over devices.

        Kernels then run on each device's pieces where arrays are cut along them.

        `"i j, j k -> i k"` with `reduction="j"` is a matrix product. Without it the rule is found
        by running the reference on random arrays: which blocks of inputs give which block of the
        outputs, and along which dimensions what they give adds up.

        Args:
            text: the factors of each dimension between spaces, arrays between commas, `(i j)` for a
                dimension of two factors, major first, `...` in front for any number of dimensions;
                None: there is no rule, and none is looked for.
            reduction: factors over which the operation sums.
            need_replication: factors along which it needs all.
            permutation: factors along which blocks move from device to device.
            blocked: factors along which shardings do not pass.
            sizes: of factors that are no dimension alone, where they do not follow.

        Raises:
            AttributeValueError: the text is no rule, or has none of such factors.
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
