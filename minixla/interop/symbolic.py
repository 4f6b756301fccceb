"""StableHLO programs with symbolic sizes, specialized to the sizes of their arguments."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from html import escape
from typing import Any, NamedTuple, NoReturn

import jax.export
from jax.tree_util import keystr, tree_flatten_with_path, tree_unflatten

from minixla.core.errors import ImportError_, TransformError, explain
from minixla.core.graph import Graph
from minixla.core.shapes import Shape
from minixla.core.tracebacks import api_boundary
from minixla.core.tracing import shape_of
from minixla.engine.readers import Refusal, specialized
from minixla.interop.imported import ImportedProgram, kept_leaves
from minixla.interop.module import Module, is_platform_index
from minixla.interop.reading import read_module
from minixla.interop.refusals import SUBJECT, located
from minixla.interop.values import unbounded_sizes

#: Makes the program of a function, by name, whose arguments have the given MLIR types.
Specialize = Callable[[str, Sequence[str]], ImportedProgram]
# XLA's message: the place, and the text of the program's assertion or MLIR's complaint.
_SAID = re.compile(
    r'(?P<place>[^\s"]+:\d+:\d+)?[^\n]*?error: (?:loc\([^\n]*?\): )?(?P<text>[^\n]+)'
)
_LINK = re.compile(r"\s*Please see https://\S+ for more details\.?|, (?=\.)")
_ASSERTION = 'loc("shape_assertion")', "shape_assertion"


class _Input(NamedTuple):
    """An argument of a function."""

    type: str  # in MLIR
    element: str
    sizes: tuple[int | None, ...] | None  # None for each symbolic one; None if there is none
    is_platform: bool  # the index of the platform, which jax.export adds

    def with_sizes(self, sizes: Sequence[int]) -> str:
        """Return the MLIR type with static sizes."""
        return f"tensor<{''.join(f'{size}x' for size in sizes)}{self.element}>"


class SymbolicFunction:
    """A function with symbolic sizes, and its programs for static sizes."""

    def __init__(
        self, module: Module, name: str, exported: jax.export.Exported | None, make: Specialize
    ) -> None:
        self.name, self.exported = name, exported
        self.inputs = _inputs(module.functions[name])
        self._make = make
        self._programs: dict[tuple[str, ...], ImportedProgram] = {}

    @property
    def is_symbolic(self) -> bool:
        """Whether an argument has a symbolic size."""
        return any(declared.sizes is not None for declared in self.inputs)

    def named(self, name: str, module: Module) -> SymbolicFunction:
        """Return another function of the program, of arrays one by one."""
        return SymbolicFunction(module, name, None, self._make)

    def specialized(self, args: Any, kwargs: Any) -> ImportedProgram:
        """Return the program for the sizes of arguments."""
        if self.exported is None:
            if kwargs:
                raise TypeError(f"{self.name}() got an unexpected argument {next(iter(kwargs))!r}")
            operands = list(args)
        else:
            operands = kept_leaves(self.exported, self.name, args, kwargs)
        return self.with_types(self._types(operands), operands)

    def with_declared_types(self) -> ImportedProgram:
        """Return the program if its arguments are static, and only values in it are not."""
        return self.with_types([declared.type for declared in self.inputs], ())

    def with_types(self, types: Sequence[str], operands: Sequence[Any]) -> ImportedProgram:
        """Return the program for arguments of MLIR types; it is made once."""
        key = tuple(types)
        if key not in self._programs:
            try:
                self._programs[key] = self._make(self.name, types)
            except Refusal as refusal:
                self._refuse(refusal.problem, operands)
        return self._programs[key]

    def _types(self, operands: Sequence[Any]) -> list[str]:
        inputs = [declared for declared in self.inputs if not declared.is_platform]
        if len(operands) != len(inputs):
            problem = f"{len(operands)} arguments for {len(inputs)} inputs"
            details = [f"inputs ({', '.join(self._described())})"]
            raise explain(TransformError, self.name, problem, details, "Pass one for each input.")
        remaining = iter(enumerate(operands))
        return [
            declared.type if declared.is_platform else self._type(declared, *next(remaining))
            for declared in self.inputs
        ]

    def _type(self, declared: _Input, index: int, operand: Any) -> str:
        if declared.sizes is None:
            return declared.type
        shape = shape_of(operand, self.name)
        if isinstance(shape, Shape) and not shape.is_dynamic and shape.rank == len(declared.sizes):
            pairs = zip(declared.sizes, shape.dimensions, strict=True)
            if all(wanted in (None, size) for wanted, size in pairs):
                return declared.with_sizes(shape.dimensions)
        problem = f"{self._names(len(self.inputs))[index]} has shape {shape}"
        problem += f", but the program takes {self._described()[index]}"
        advice = "Each symbolic size may be any static size; the rank and other sizes are fixed."
        raise explain(TransformError, self.name, problem, (), advice)

    def _names(self, count: int) -> list[str]:
        """Return what errors call the arguments: leaves of pytrees by their paths."""
        exported = self.exported
        if exported is None:
            return [f"argument {index}" for index in range(count)]
        numbers = list(range(exported.in_tree.num_leaves))
        args, kwargs = tree_unflatten(exported.in_tree, numbers)
        paths = [f"args{keystr(path)}" for path, _ in tree_flatten_with_path(args)[0]]
        paths += [f"kwargs{keystr(path)}" for path, _ in tree_flatten_with_path(kwargs)[0]]
        return [paths[number] for number in exported.module_kept_var_idx]

    def _described(self) -> list[str]:
        """Return the types of the arguments, with the names of symbolic sizes if they are known."""
        if self.exported is None:
            return [declared.type for declared in self.inputs]
        avals = self.exported.in_avals
        return [avals[number].str_short() for number in self.exported.module_kept_var_idx]

    def _refuse(self, problem: str, operands: Sequence[Any]) -> NoReturn:
        """Raise the error for sizes that the program does not take."""
        names = self._names(len(operands))
        pairs = zip(names, operands, self._described(), strict=False)
        details = [f"{name}: {shape_of(x)}, declared {text}" for name, x, text in pairs]
        match = _SAID.search(problem)
        if match is None:
            advice = "Every size must follow from the sizes of the arguments."
            problem = f"the sizes of the program are not static: {problem.strip()[:300]}"
            raise explain(ImportError_, SUBJECT, problem, details, advice)
        text = _LINK.sub("", match["text"]).strip().rstrip(".")
        if operands and any(mark in problem for mark in _ASSERTION):
            advice = "Pass arguments whose sizes satisfy the constraint, or export the function "
            advice += "without it."
            raise explain(TransformError, self.name, text, details, advice)
        place = match["place"] or ""
        file, _, rest = place.partition(":")
        place = f'"{file}":{rest}' if place else ""
        advice = "The sizes of the arguments must fit the operation."
        raise located(place, f"the sizes do not fit: {text}", details, advice)

    def __str__(self) -> str:
        return f"{self.name}({', '.join(self._described())})"


class SymbolicProgram(ImportedProgram):
    """A program with symbolic sizes, such as `tensor<?x4xf32>`.

    A call specializes the program to the sizes of the arguments, once for each combination of
    sizes. It is an ordinary function: `mx.grad`, `mx.vmap`, `mx.jit`, `mx.reference` work on it.

    Attributes:
        functions: every function of the program, by name.
    """

    def __init__(self, function: SymbolicFunction, module: Module, is_main: bool = True) -> None:
        self._function = function
        self.__name__ = function.name
        self.functions = {}
        if is_main:
            others = {name: function.named(name, module) for name in module.functions}
            self.functions = {
                name: SymbolicProgram(other, module, False) for name, other in others.items()
            }

    @api_boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The results for arguments of any sizes that the program allows."""
        return self._function.specialized(args, kwargs)(*args, **kwargs)

    @api_boundary
    def graph(self, *args: Any, **kwargs: Any) -> Graph:  # pyright: ignore[reportIncompatibleVariableOverride]  # depends on sizes
        """Return the program for the sizes of arguments, which may be ShapeDtypeStructs."""
        return self._function.specialized(args, kwargs).graph

    def __repr__(self) -> str:
        return f"<imported {self._function}, with symbolic sizes>"

    def _repr_html_(self) -> str:
        return f"<code>{escape(repr(self))}</code>"


def with_static_sizes(module: Any) -> Any:
    """Return an MLIR module whose main function is static, with static sizes in all functions."""
    unread = Module(module)
    if not unread.has_symbolic_sizes:
        return module
    written = io.BytesIO()
    module.operation.write_bytecode(written)
    types = [declared.type for declared in _inputs(unread.functions["main"])]
    return read_module(specialized(written.getvalue(), "main", types))


def _inputs(function: Any) -> list[_Input]:
    blocks = function.regions[0].blocks if function.regions else ()
    arguments = blocks[0].arguments if len(blocks) else ()
    inputs = []
    for argument, is_platform in zip(arguments, is_platform_index(function), strict=True):
        type_ = argument.type
        sizes = unbounded_sizes(type_)
        element = "" if sizes is None else str(type_.element_type)
        inputs.append(_Input(str(type_), element, sizes, is_platform))
    return inputs
