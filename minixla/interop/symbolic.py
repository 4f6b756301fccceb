"""StableHLO programs with symbolic sizes, specialized to the sizes of their arguments."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from html import escape
from typing import Any, NamedTuple, NoReturn

import jax.export
from jax.tree_util import tree_leaves

from minixla.core.element_types import BY_STABLEHLO
from minixla.core.errors import ImportError_, MinixlaError, TransformError, explain
from minixla.core.graph import Graph
from minixla.core.shapes import Shape, symbolic_sizes
from minixla.core.tracebacks import api_boundary
from minixla.core.tracing import shape_of
from minixla.engine.readers import Refusal, specialized
from minixla.interop.imported import ImportedProgram, argument_paths, kept_leaves
from minixla.interop.module import Module, argument_types, is_platform_index
from minixla.interop.reading import read_module
from minixla.interop.refusals import SUBJECT
from minixla.interop.values import unbounded_sizes

#: Makes the program of a function, by name, whose arguments have the given MLIR types.
Specialize = Callable[[str, Sequence[str]], ImportedProgram]
# XLA's message: the place, and the text of the program's assertion or MLIR's complaint.
_SAID = re.compile(r"(?P<place>[^\s\"]+:\d+): error: (?:loc\([^\n]*?\): )?(?P<text>[^\n]+)")
_LINK = re.compile(r"\s*Please see https://\S+ for more details\.?|, (?=\.)")


class _Input(NamedTuple):
    """An argument of a function."""

    type: str  # in MLIR
    element: str
    sizes: tuple[int | None, ...] | None  # None for each symbolic size; None if all are static
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
        #: The function's name in errors.
        self.title = name if exported is None else exported.fun_name
        self.inputs = _inputs(module.functions[name], exported is not None)
        self._make = make
        self._programs: dict[tuple[str, ...], ImportedProgram] = {}

    @property
    def is_symbolic(self) -> bool:
        """True if an argument has a symbolic size."""
        return any(declared.sizes is not None for declared in self.inputs)

    def named(self, name: str, module: Module) -> SymbolicFunction:
        """Return another function of the program, which takes arrays rather than pytrees."""
        return SymbolicFunction(module, name, None, self._make)

    def specialized(self, args: Any, kwargs: Any) -> ImportedProgram:
        """Return the program for the sizes of arguments."""
        if self.exported is None:
            if kwargs:
                raise TypeError(f"{self.title}() got an unexpected argument {next(iter(kwargs))!r}")
            operands = list(args)
        else:
            operands = kept_leaves(self.exported, self.title, args, kwargs)
        return self.with_types(self._types(operands), operands)

    def with_sizes(self, sizes: Sequence[Sequence[int] | None]) -> ImportedProgram:
        """Return the program for arrays of the given sizes; None if all are static."""
        inputs = [declared for declared in self.inputs if not declared.is_platform]
        if len(sizes) < len(inputs):
            sizes = [*sizes, *[None] * (len(inputs) - len(sizes))]
        names, described = self._names(len(inputs)), self._described()
        shapes: list[Any] = []
        for index, (declared, of_one) in enumerate(zip(inputs, sizes, strict=False)):
            if of_one is None and declared.sizes is not None:
                problem = f"the sizes of {names[index]}, {described[index]}, are not known"
                raise explain(TransformError, self.title, problem, (), "Pass an array for it.")
            kind = BY_STABLEHLO.get(declared.element) or "f32"
            shapes.append(None if of_one is None else Shape(kind, of_one))
        shapes += sizes[len(inputs) :]
        return self.with_types(self._types(shapes), shapes)

    def with_declared_types(self) -> ImportedProgram:
        """Return the program if its arguments are static, and only values in it are not."""
        return self.with_types([declared.type for declared in self.inputs], ())

    def with_inner_sizes(self) -> ImportedProgram | None:
        """Return `with_declared_types`, or None if sizes do not follow from the arguments."""
        try:
            return self.with_declared_types()
        except MinixlaError:
            return None

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
            raise explain(TransformError, self.title, problem, details, "Pass one for each input.")
        remaining = iter(enumerate(operands))
        return [
            declared.type if declared.is_platform else self._type(declared, *next(remaining))
            for declared in self.inputs
        ]

    def _type(self, declared: _Input, index: int, operand: Any) -> str:
        if declared.sizes is None:
            return declared.type
        shape = shape_of(operand, self.title)
        if isinstance(shape, Shape) and not shape.is_dynamic and shape.rank == len(declared.sizes):
            pairs = zip(declared.sizes, shape.dimensions, strict=True)
            if all(wanted in (None, size) for wanted, size in pairs):
                return declared.with_sizes(shape.dimensions)
        problem = f"{self._names(len(self.inputs))[index]} has shape {shape}"
        problem += f", but the program takes {self._described()[index]}"
        advice = "Each symbolic size may be any static size; the rank and other sizes are fixed."
        raise explain(TransformError, self.title, problem, (), advice)

    def _names(self, count: int) -> list[str]:
        """Return the names of the arguments in errors: leaves of pytrees by their paths."""
        if self.exported is None:
            return [f"argument {index}" for index in range(count)]
        return argument_paths(self.exported)

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
        details = [
            f"{name}: {shape_of(x)}, declared {text}" for name, x, text in pairs if x is not None
        ]
        match = _SAID.search(problem)
        if match is None or "has dynamic shapes" in match["text"]:
            advice = "Every size must follow from the sizes of the arguments, not from their "
            advice += "values, or have a bound (tensor<?xf32, #stablehlo.bounds<8>>)."
            said = problem.strip()[:300] if match is None else _line(match["place"]) + match["text"]
            problem = f"a size in the program does not follow from the arguments: {said}"
            raise explain(ImportError_, SUBJECT, problem, details, advice)
        text = " ".join(_LINK.sub("", match["text"]).split()).rstrip(".")
        advice = "Pass arguments whose sizes satisfy the constraint."
        if "shape_assertion" not in problem:
            advice = "Pass arguments whose sizes fit all operations."
            text = f"{_line(match['place'])}the sizes of the arguments do not fit: {text}"
        raise explain(TransformError, self.title, text, details, advice)

    def __str__(self) -> str:
        return f"{self.title}({', '.join(self._described())})"


class SymbolicProgram(ImportedProgram):
    """A program with symbolic sizes, such as `tensor<?x4xf32>`.

    A call specializes the program to the sizes of the arguments, once for each combination of
    sizes. It is an ordinary function: `mx.grad`, `mx.vmap`, `mx.jit`, `mx.reference` work on it.

    Attributes:
        functions: every function of the program, by name.
    """

    def __init__(self, function: SymbolicFunction, module: Module, is_main: bool = True) -> None:
        self._function = function
        self.__name__ = function.title
        self.functions = {}
        if is_main:
            others = {name: function.named(name, module) for name in module.functions}
            self.functions = {
                name: SymbolicProgram(other, module, False) for name, other in others.items()
            }

    @property
    def signature(self) -> str:
        """Its name and the types of its arguments."""
        return str(self._function)

    @api_boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the results for arguments of any sizes that the program allows."""
        exported = self._function.exported
        if exported is not None and any(map(symbolic_sizes, tree_leaves((args, kwargs)))):
            return exported.call(*args, **kwargs)  # JAX traces with symbolic sizes
        return self._function.specialized(args, kwargs)(*args, **kwargs)

    @api_boundary
    def graph(self, *args: Any, **kwargs: Any) -> Graph:
        """Return the program for the sizes of arguments, which may be ShapeDtypeStructs."""
        return self._function.specialized(args, kwargs).graph

    def with_sizes(self, sizes: Sequence[Sequence[int] | None]) -> ImportedProgram:
        """Return the program for arrays of the given sizes, one for each array that it takes.

        None stands for the sizes of an array that are static in the program.
        """
        return self._function.with_sizes(sizes)

    def __repr__(self) -> str:
        return f"<imported {self.signature}, with symbolic sizes>"

    def _repr_html_(self) -> str:
        return f"<code>{escape(repr(self))}</code>"


def _line(place: str) -> str:
    """Return the line that MLIR names, `-:2:12` or `file:2:12`, as the beginning of a message."""
    file, line, column = ["", *place.rsplit(":", 2)][-3:]
    if file in ("", "<unknown>") or not line.isdecimal():
        return ""
    return f"{'' if file == '-' else f'{file}, '}line {line}, column {column}: "


def with_static_sizes(module: Any) -> Any:
    """Return an MLIR module whose main function is static, with static sizes in all functions."""
    unread = Module(module)
    if not unread.has_symbolic_sizes:
        return module
    written = io.BytesIO()
    module.operation.write_bytecode(written)
    types = [declared.type for declared in _inputs(unread.functions["main"])]
    return read_module(specialized(written.getvalue(), "main", types))


def _inputs(function: Any, is_exported: bool = False) -> list[_Input]:
    inputs = []
    for type_, is_index in zip(argument_types(function), is_platform_index(function), strict=True):
        sizes = unbounded_sizes(type_)
        element = "" if sizes is None else str(type_.element_type)
        inputs.append(_Input(str(type_), element, sizes, is_exported and is_index))
    return inputs
