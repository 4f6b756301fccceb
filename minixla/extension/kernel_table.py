"""The kernels of an operation, and the choice of one by platform and attributes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from minixla.core.errors import AttributeValueError, MinixlaError, TransformError, explain
from minixla.core.shapes import AnyShape
from minixla.extension.attribute_types import ListKind, TypeKind
from minixla.extension.kernels import ForeignKernel, HostKernel, Kernel, PythonKernel
from minixla.extension.types import SETS

if TYPE_CHECKING:
    from minixla.extension.definitions import Definition
    from minixla.extension.operation import CustomOperation

#: The kernel that defines the meaning, in NumPy, and the one that is a program for any platform.
REFERENCE, ANY = "reference", "any"
PLATFORMS = ("cpu", "cuda", "rocm", "tpu")
_GROUPS = {"gpu": ("cuda", "rocm"), "default": (ANY,)}

_FORCED: ContextVar[Kernel | None] = ContextVar("forced", default=None)


@contextmanager
def forced(kernel: Kernel) -> Iterator[None]:
    """Use a kernel for this thread's programs in a `with` block, regardless of others."""
    token = _FORCED.set(kernel)
    try:
        yield
    finally:
        _FORCED.reset(token)


class Kernels:
    """The kernels of an operation.

    Attributes:
        listed: all of them.
        falls_back: whether to run the reference on the host if a platform has no kernel.
    """

    def __init__(self, definition: Definition, subject: str, falls_back: bool = False) -> None:
        self.definition, self.subject, self.falls_back = definition, subject, falls_back
        self.listed: list[Kernel] = []

    def add(self, kernel: Kernel) -> None:
        """Add a kernel.

        Raises:
            AttributeValueError: a kernel for the same platform and attributes exists already.
        """
        for other in self.listed:
            alike = (kernel.platform, kernel.priority) == (other.platform, other.priority)
            if alike and kernel.is_narrower(other) and other.is_narrower(kernel):
                problem = "a kernel for the same platform and attributes is registered already"
                advice = "Give one of them a higher priority, or other attributes."
                raise explain(AttributeValueError, self.subject, problem, [str(other)], advice)
        self.listed.append(kernel)

    def platforms_of(self, platform: str) -> tuple[str, ...]:
        """Return the platforms of a caller's name; raise AttributeValueError if it is unknown."""
        platforms = (REFERENCE, ANY, *PLATFORMS)
        if platform in platforms:
            return (platform,)
        if platform in _GROUPS:
            return _GROUPS[platform]
        problem, advice = f"platform {platform!r} is unknown", ", ".join((*platforms, *_GROUPS))
        raise explain(AttributeValueError, self.subject, problem, (), f"It is one of {advice}.")

    def allowed(self, stated: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
        """Return the values of attributes that a kernel supports, in canonical form.

        Raises:
            AttributeValueError: an attribute does not exist, or cannot have such a value.
        """
        allowed_values = {}
        for name, values in stated.items():
            declared = self.definition.attributes.get(name)
            if declared is None:
                problem = f"a kernel is for values of {name}, which is not an attribute"
                advice = f"Its attributes are {', '.join(self.definition.attributes) or 'none'}."
                raise explain(AttributeValueError, self.subject, problem, (), advice)
            kind = declared.kind.member if isinstance(declared.kind, ListKind) else declared.kind
            listed: Iterable[Any] = values if isinstance(values, (list, tuple, set)) else (values,)
            if isinstance(kind, TypeKind):
                listed = [member for value in listed for member in _set(value, kind)]
            try:
                allowed_values[name] = tuple([kind.canonical(item) for item in listed])
            except MinixlaError:
                raise
            except (TypeError, ValueError) as error:
                problem = f"a kernel is for a value that {name} cannot have"
                details = [str(declared), str(error)]
                raise explain(
                    AttributeValueError, self.subject, problem, details, "See its declaration."
                ) from None
        return allowed_values

    def reference(self, operation: CustomOperation) -> PythonKernel | None:
        """Return the kernel that defines the meaning in NumPy."""
        return self._best(operation, REFERENCE)

    def composition(self, operation: CustomOperation) -> PythonKernel | None:
        """Return the kernel that is a program for any platform, and so has derivatives."""
        return self._best(operation, ANY)

    def _best(self, operation: CustomOperation, *platforms: str) -> Any:
        """Return the narrowest kernel with the highest priority, or None.

        Raises:
            TransformError: several kernels qualify.
        """
        fitting = [k for k in self.listed if k.platform in platforms and k.fits(operation)]
        if not fitting:
            return None
        ranks = [(kernel.priority, kernel.platform != ANY) for kernel in fitting]
        first = [k for k, rank in zip(fitting, ranks, strict=True) if rank == max(ranks)]
        best = [kernel for kernel in first if all(map(kernel.is_narrower, first))]
        if len(best) != 1:
            problem = (
                "several kernels match these attributes, and none is more specific than the others"
            )
            details = [*map(str, first), f"attributes: {shown_attributes(operation)}"]
            advice = "Give one of them a priority: op.kernel(..., priority=1)."
            raise explain(TransformError, operation.builder_name, problem, details, advice)
        return best[0]

    def chosen(self, operation: CustomOperation, emit: Any, shapes: Sequence[AnyShape]) -> Kernel:
        """Return the kernel for the platform of a program that is being written.

        Raises:
            TransformError: no kernel qualifies, or several do.
        """
        forced = _FORCED.get()
        if forced in self.listed and forced.fits(operation):
            return forced
        platform = emit.platform
        kernel = self._best(operation, *([platform, ANY] if platform else [ANY]))
        if kernel is not None:
            return kernel
        if not emit.calls_host:
            # A text for reading: it names the operation.
            return ForeignKernel(platform or ANY, {}, target=operation.name)
        has_reference = self.reference(operation) is not None
        if self.falls_back and has_reference:
            return HostKernel(platform or ANY, {})
        where = f"the platform {platform}" if platform else "several platforms at once"
        problem = f"no kernel is registered for {where} and these types"
        registered = [str(kernel) for kernel in self.listed] or ["no kernel is registered"]
        details = [f"operands {', '.join(map(str, shapes))}"]
        details += [f"attributes: {shown_attributes(operation)}"] if operation.values else []
        advice = f'Register one: op.kernel("{platform or ANY}"), or op.composition for all. '
        if has_reference:
            advice += "host_fallback=True in register_op runs the reference on the host."
        raise explain(
            TransformError, operation.builder_name, problem, [*details, *registered], advice
        )


def _set(value: Any, kind: TypeKind) -> tuple[Any, ...]:
    """Return the types that a caller names; a set's name means its types that `kind` accepts."""
    members = SETS.get(value) if isinstance(value, str) else None
    return (value,) if members is None else tuple(filter(kind.takes_type, members))


def shown_attributes(operation: CustomOperation) -> str:
    """Return the attributes for a message: `T = f32, n = 2`."""
    return ", ".join([f"{name} = {operation.attr(name)!r}" for name in operation.field_names])
