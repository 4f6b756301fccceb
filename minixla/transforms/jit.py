"""jit: compile a function with XLA through jax.jit."""

from __future__ import annotations

import functools
import sys
import weakref
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Unpack, overload

import jax

from minixla.core import hooks
from minixla.core.argument_kinds import checks_kinds
from minixla.core.attributes import exact
from minixla.core.errors import MinixlaError
from minixla.core.graph import Graph
from minixla.core.shapes import TupleValue, is_mutable
from minixla.core.state import restore_state
from minixla.core.tracebacks import api_boundary, hide_frames
from minixla.core.tracing import _state, not_a_value, shape_of
from minixla.engine import forget_traces, jitted, lowered, raise_ours, stage_for_jax
from minixla.transforms import arguments
from minixla.transforms.evaluation import closed
from minixla.transforms.layouts import JitLayouts
from minixla.transforms.pytree_paths import check_leaves
from minixla.transforms.sharing import Shared, remembered_by, shared_by
from minixla.transforms.staging import stage_once
from minixla.transforms.typed_functions import Function, JitOptions, Jitted, Parameters, Result
from minixla.typing import PyTree
from minixla_ops.programs.call import call

_JAX_METHODS = ("lower", "trace", "eval_shape", "clear_cache")
_OWN_METHODS = ("graph", "shardings")
#: Options that name arguments.
_MARKS = ("static_argnums", "static_argnames", "donate_argnums", "donate_argnames")


@overload
def jit(
    fun: Callable[Parameters, Result], /, **options: Unpack[JitOptions]
) -> Jitted[Parameters, Result]: ...
@overload
def jit(
    **options: Unpack[JitOptions],
) -> Callable[[Callable[Parameters, Result]], Jitted[Parameters, Result]]: ...
@checks_kinds
def jit(fun: Function | None = None, /, **options: Unpack[JitOptions]) -> Function:
    """Compile `fun` with XLA; it is traced once for each combination of shapes (JAX: jit).

    Outside transformations, a call is a call of `jax.jit`'s own object. Inside `grad`, `vmap` and
    other transformations, the function becomes one Call instruction, so its derivative is also
    compiled.

    Args:
        fun: a function of pytrees of arrays; omitted if `jit` is a decorator with options.
        options: those of `jax.jit` (static_argnums, static_argnames, donate_argnums,
            donate_argnames, in_shardings, out_shardings, keep_unused, device, backend, inline,
            compiler_options), and `mesh`. It is a mesh of minixla or JAX for the PartitionSpecs in
            these options and in the function.

    Returns:
        A function with `jax.jit`'s methods `lower`, `trace`, `eval_shape` and `clear_cache`. It
        also has `graph(*args)`, which returns the Graph, and `shardings(*args)`, which returns
        Layouts: the shardings of every instruction's result, before compiling.

    Raises:
        ConcretizationError: when called, if the function concretizes a traced value.
        TransformError: when called, if a result is not an array, or options do not match it.

    Example:
        >>> f = mx.jit(lambda x: x * x + 1)
        >>> f(np.float32([1, 2]))
        Array([2., 5.], dtype=float32)
    """
    if fun is None:
        return functools.partial(jit, **options)
    arguments.checked_function(fun, "jit")
    marks: dict[str, Any] = {name: value for name, value in options.items() if name in _MARKS}
    arguments.check_marks("jit", fun, **marks)
    layouts = JitLayouts({**options})
    inner = layouts.within(fun)
    shared = shared_by(fun) if inner is fun else None
    compiled, nested = Compiled(inner, layouts, shared), _Nested(inner, layouts, shared)

    def missed(made: Function, *args: PyTree, **kwargs: PyTree) -> tuple[object, object, bool]:
        trace = _state.trace
        try:
            if trace.evaluates:
                return made(*args, **kwargs)
            return nested(*args, **kwargs), None, False
        except KeyboardInterrupt:
            if trace.evaluates:  # otherwise the enclosing function does the same
                restore_state(trace, 0)
            raise
        except Exception as error:
            try:
                # A lambda would create cells for the arguments in every call.
                raise_ours(error, "jit", functools.partial(nested.graph, *args, **kwargs))
                nested.check_arguments(args, kwargs)
            except MinixlaError as refusal:
                hide_frames(refusal)
                raise
            nested.name_arguments(error, args, kwargs)
            hide_frames(error)
            raise

    methods = {name: getattr(nested, name) for name in _OWN_METHODS}
    methods |= {name: _explained(compiled.method(name), nested) for name in _JAX_METHODS}
    wrapped = compiled.function(missed, fun, functools.partial(jit, **options), methods)
    remembered_by(wrapped, fun, jit, (), options)
    return wrapped


def _note(error: Exception, names: Sequence[str], what: str, advice: str) -> None:
    if names:
        verb = "is" if len(names) == 1 else "are"
        error.add_note(f"jit: {' and '.join(names)} {verb} {what}. {advice}")


def _reduced(wrapper: Any, made_again: tuple[object, ...]) -> object:  # noqa: ANN401  # from a weakref
    """Pickle by name if other processes find the function by its name."""
    module, reduced = wrapper.__module__, None
    if module != "__main__":
        with suppress(AttributeError):
            reduced = attrgetter(wrapper.__qualname__)(sys.modules.get(module))
    return wrapper.__qualname__ if reduced is wrapper else made_again


def _explained(method: Function, nested: _Nested) -> Function:
    """Wrap a method of `jax.jit`'s object to raise our errors about arguments."""

    @functools.wraps(method)
    def explained(*args: PyTree, **kwargs: PyTree) -> PyTree:
        try:
            return method(*args, **kwargs)
        except TypeError:
            nested.check_arguments(args, kwargs, True)
            raise

    return explained


class Compiled:
    """`jax.jit`'s object for a function, `call`, and its methods."""

    def __init__(self, fun: Function, layouts: JitLayouts, shared: Shared | None = None) -> None:
        self._layouts, self._fun = layouts, fun
        is_own = shared is None
        self._staged = (
            arguments.named_after(stage_for_jax(fun, is_stepped=True), fun)
            if is_own
            else shared.staged
        )
        self.call: Any = jax.jit(self._staged, **layouts.for_jax())

    def lower(self, *args: PyTree, **kwargs: PyTree) -> PyTree:
        """Return JAX's stage, built directly if possible."""
        self._layouts.check_mesh()
        lowered_here = None if self._layouts.options else lowered(self._staged, args, kwargs)
        return lowered_here or self.call.lower(*args, **kwargs)

    def clear_cache(self) -> None:
        """Forget programs and traces."""
        forget_traces(self._staged)
        self.call.clear_cache()

    def function(
        self,
        missed: Callable[..., PyTree],
        fun: Function,
        again: Callable[..., PyTree],
        methods: Mapping[str, Function] = MappingProxyType({}),
    ) -> Function:
        """Return `call` as a Python function with more methods, pickled as `again(fun)`."""
        wrapper = arguments.named_after(jitted(self.call, missed), fun)
        methods = {name: self.method(name) for name in _JAX_METHODS} | {**methods}
        for name, method in methods.items():
            setattr(wrapper, name, api_boundary(method))
        # Pickle like a Python function; `jax.jit`'s object would lose its methods.
        # A weak reference: the wrapper and its programs are freed with the last user's reference.
        itself = weakref.ref(wrapper)
        wrapper.__reduce_ex__ = lambda _: _reduced(itself(), (again, (fun,)))
        wrapper.__deepcopy__ = lambda _: itself()
        setattr(wrapper, arguments.METHODS, (*methods, "_fun", "__reduce_ex__", "__deepcopy__"))
        return wrapper

    def method(self, name: str) -> Function:
        """Return a method of `call`, or its replacement in this class."""

        def method(*args: PyTree, **kwargs: PyTree) -> PyTree:
            owner = self if name in vars(Compiled) else self.call
            return getattr(owner, name)(*args, **kwargs)

        method.__name__, method.__doc__ = name, getattr(self.call, name).__doc__
        return method


class _Nested:
    """A jitted function inside our own traces: a cached graph, applied by Call."""

    def __init__(self, fun: Function, layouts: JitLayouts, shared: Shared | None) -> None:
        self._layouts, self._fun = layouts, fun
        marked = [layouts.options.get(name) for name in ("static_argnums", "static_argnames")]
        self._static = arguments.StaticArguments(fun, *marked)
        self._cache = arguments.Cache()
        if shared is not None and layouts.options.keys() <= {"static_argnums", "static_argnames"}:
            key = exact(tuple(marked))
            with suppress(TypeError):  # the marks are not hashable
                self._cache = shared.graphs.setdefault(key, self._cache)

    def __call__(self, *args: PyTree, **kwargs: PyTree) -> PyTree:
        arguments, static = self._static.split("jit", args, kwargs)
        leaves, apply = arguments.leaves, self._layouts.laid_out(arguments.apply)
        if any(map(is_mutable, leaves)):
            return self._fun(*args, **kwargs)  # a graph cannot contain mutable arrays
        signature = arguments.signature([shape_of(leaf, "jit") for leaf in leaves])
        staged = stage_once(self._cache, arguments, static, signature, apply)
        return staged.results(call(staged.graph, *staged.read, *leaves))

    def check_arguments(
        self, args: tuple[PyTree, ...], kwargs: dict[str, PyTree], may_be_shapes: bool = False
    ) -> None:
        arguments, _ = self._static.split("jit", args, kwargs)
        self._layouts.check_arguments(arguments)
        names = arguments.where()
        for leaf, place in zip(arguments.leaves, names, strict=True):
            if isinstance(leaf, TupleValue) and _state.trace.evaluates:
                raise not_a_value(leaf, "jit", place)
        pairs = zip(arguments.leaves, names, strict=True)
        arrays = [
            x for x in pairs if not (may_be_shapes and isinstance(x[0], jax.ShapeDtypeStruct))
        ]
        for leaf, name in arrays:
            check_leaves("jit", [leaf], [name])

    def name_arguments(
        self, error: Exception, args: tuple[PyTree, ...], kwargs: dict[str, PyTree]
    ) -> None:
        """Add a note with the paths of the arguments that an error of JAX is about."""
        text = str(error)
        arguments, _ = self._static.split("jit", args, kwargs)
        pairs = zip(arguments.leaves, arguments.where(), strict=True)
        arrays = [pair for pair in pairs if isinstance(pair[0], jax.Array)]
        if "has been deleted" in text:
            deleted = [name for leaf, name in arrays if leaf.is_deleted()]
            _note(error, deleted, "deleted", "A donated array cannot be used again.")
        elif "donate the same buffer twice" in text:
            counts = Counter(id(leaf) for leaf, _ in arrays)
            twice = [name for leaf, name in arrays if counts[id(leaf)] > 1]
            _note(error, twice, "the same array", "Copy it, or donate it once.")

    def graph(self, *args: PyTree, **kwargs: PyTree) -> Graph:
        """Return the graph of the function for these arguments."""
        arguments, _ = self._static.split("jit", args, kwargs)
        staged = closed(arguments)
        return self._layouts.annotated(staged.graph, arguments, staged.result_tree)

    def shardings(self, *args: PyTree, **kwargs: PyTree) -> PyTree:
        """Return the shardings of all instructions' results for these arguments, as `Layouts`.

        `print` shows a table, `.collectives()` returns the required exchanges between devices,
        `.draw(path)` draws, and `.graph` is the annotated program. Nothing is compiled.
        """
        return hooks.layouts(self.graph(*args, **kwargs).pruned())
