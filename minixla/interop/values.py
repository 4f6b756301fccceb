"""Types, constants, attributes and source lines of MLIR in our terms."""

import re
from collections.abc import Callable
from functools import lru_cache
from types import CodeType
from typing import Any

import numpy as np
from jax.extend.mlir import ir

from minixla.core.attributes import Literal
from minixla.core.element_types import BY_STABLEHLO, ElementType
from minixla.core.errors import SizeError
from minixla.core.shapes import TOKEN, AnyShape, Shape, TupleShape
from minixla.core.source import IMPORTED, PROGRAM_TEXT, Source, innermost_source

_BOUNDS = re.compile(r"#stablehlo\.bounds<([^>]*)>")
_DYNAMIC = ir.ShapedType.get_dynamic_size()


class UnreadableError(ValueError):
    """The program lacks an attribute's numbers; the message is a clause with the reason."""


def shape_of_type(type_: Any) -> AnyShape:
    """Return the shape for an MLIR type; raise ValueError, a clause with the reason, if none."""
    if isinstance(type_, ir.RankedTensorType):
        try:
            return _array_shape(type_)
        except SizeError as error:
            raise ValueError(error.problem) from None
    if isinstance(type_, ir.TupleType):
        # MLIR's limit of nesting (see `reading`) bounds the recursion.
        members = range(type_.num_types)
        return TupleShape([shape_of_type(type_.get_type(index)) for index in members])
    if str(type_) == TOKEN.stablehlo:
        return TOKEN
    raise ValueError(f"{_short(type_)} is not a type of arrays, tuples or tokens")


def element_of(type_: Any) -> ElementType:
    """Return the element type of an MLIR tensor type."""
    kind = BY_STABLEHLO.get(str(type_.element_type))
    if kind is None:
        raise ValueError(f"{_short(type_)} has an element type that XLA programs do not have")
    return kind


def unbounded_sizes(type_: Any) -> tuple[int | None, ...] | None:
    """Return the sizes of an array type, None for each without a bound; None if all have one."""
    if not isinstance(type_, ir.RankedTensorType):
        return None
    pairs = zip(type_.shape, _bounds(type_), strict=True)
    sizes = tuple([None if (size, bound) == (_DYNAMIC, "?") else size for size, bound in pairs])
    return sizes if None in sizes else None


def _bounds(type_: Any) -> list[str]:
    encoding = type_.encoding
    found = _BOUNDS.search(str(encoding)) if encoding is not None else None
    return [bound.strip() for bound in found[1].split(",")] if found else ["?"] * type_.rank


def _array_shape(type_: Any) -> Shape:
    kind = element_of(type_)
    sizes = type_.shape
    if _DYNAMIC not in sizes:
        return Shape(kind, sizes)
    bounds = _bounds(type_)
    flags = [size == _DYNAMIC for size in sizes]
    if unbounded_sizes(type_) is not None:
        raise ValueError(f"{_short(type_)} has a dimension without a bound")
    pairs = zip(flags, sizes, bounds, strict=True)
    return Shape(kind, [int(bound) if flag else size for flag, size, bound in pairs], flags)


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 120 else f"{text[:117]}..."


def named(dictionary: Any) -> list[tuple[str, Any]]:
    """Return the attributes of a dictionary by name; TypeError if Python has no class for one."""
    # `attr` of a named attribute would end the process in MLIR's Python bindings.
    return [(entry.name, dictionary[entry.name]) for entry in dictionary]


# Among attributes, only constants have more numbers.
_MOST_NUMBERS = 1 << 20


def plain(attribute: Any, other: Callable[[Any], Any] = lambda attribute: attribute) -> Any:
    """Return an attribute as a Python number, string, boolean or tuple, or a NumPy array.

    Others become `other(attribute)`; a string that is not UTF-8 becomes bytes. UnreadableError for
    an array of very many numbers, even if the program writes it as one repeated number.
    """
    if isinstance(attribute, _SIMPLE):
        return attribute.value
    if isinstance(attribute, ir.StringAttr):
        try:
            return attribute.value_bytes.decode()
        except UnicodeDecodeError:
            return attribute.value_bytes
    if isinstance(attribute, _DENSE):
        try:
            view = np.asarray(attribute)
        except TypeError:  # integers of fewer than 8 bits
            problem = f"the element type of the attribute {_short(attribute)} cannot be read"
            raise UnreadableError(problem) from None
        if view.size > _MOST_NUMBERS:
            raise UnreadableError(f"the attribute {_short(attribute)} is too large")
        return view.copy()
    if isinstance(attribute, _LISTS):
        return tuple(attribute)
    if isinstance(attribute, ir.ArrayAttr):
        return tuple([plain(element, other) for element in attribute])
    return True if isinstance(attribute, ir.UnitAttr) else other(attribute)


_SIMPLE = (ir.IntegerAttr, ir.FloatAttr, ir.BoolAttr, ir.FlatSymbolRefAttr)
_DENSE = (ir.DenseIntElementsAttr, ir.DenseFPElementsAttr)
_MEMBERS = ("Bool", "I8", "I16", "I32", "I64", "F32", "F64")
_LISTS = tuple([getattr(ir, f"Dense{member}ArrayAttr") for member in _MEMBERS])

# Types that MLIR's Python interface gives as a buffer; others are read from their text.
_INTEGERS = {f"{sign}i{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
_BUFFERS = frozenset(["i1", "f16", "f32", "f64", *_INTEGERS])
_VALUE = re.compile(r"dense<(.*)>\s*:\s*tensor<", re.DOTALL)
_NUMBER = re.compile(r"0x[0-9A-Fa-f]+|-?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?")
_RESOURCE = re.compile(r"dense_resource<(minixla(?:_text)?\d+)(?:[^\W\d]\w*)?>")


def literal_of(step: Any) -> Literal:
    """Return the value of a constant; raise UnreadableError if the program does not contain it."""
    shape, large = step.result, step.module.constants
    if shape.element_type.stablehlo not in _BUFFERS:
        text = step.operation.get_asm(large_elements_limit=None)
    else:
        attribute = step.raw("value")  # Python has no such class for others
        if isinstance(attribute, _DENSE):
            if shape.size and attribute.is_splat:
                # A view of one number, however large the constant is.
                return Literal.splat(np.asarray(attribute)[(0,) * shape.rank], shape)
            return _literal(np.array(attribute).astype(shape.dtype), shape)
        text = str(attribute)
    match = _RESOURCE.search(text[:1000])
    if match is None or match[1] not in large:
        return _literal_from_text(text, shape)
    # It is stored outside of the program.
    data = large[match[1]]
    return _literal((data != 0 if shape.dtype == np.bool_ else data).view(shape.dtype), shape)


def _literal(array: np.ndarray, shape: Shape) -> Literal:
    array = array.reshape(shape.dimensions)
    array.flags.writeable = False
    return Literal(array, shape)


def _literal_from_text(text: str, shape: Shape) -> Literal:
    kind, match = shape.element_type, _VALUE.search(text)
    if match is None:
        raise UnreadableError(f"the constant is not a dense array: {_short(text)}")
    body = match[1].strip()
    if body.startswith('"0x'):
        array = np.frombuffer(bytes.fromhex(body[3:-1]), shape.dtype)
    else:
        part = kind.real if kind.is_complex else kind
        numbers = [_number(digits, part) for digits in _NUMBER.findall(body)]
        # The real and imaginary parts of complex numbers alternate.
        array = np.array(numbers, part.dtype).view(shape.dtype)
    if not shape.size:
        array = array[:0]  # an empty constant may contain one number
    if array.size == 1:
        return Literal.splat(array[0], shape)
    return _literal(array, shape)


def _number(text: str, kind: ElementType) -> Any:
    if kind.is_integer:
        return kind.dtype.type(int(text, 0))
    if text.startswith("0x"):
        size = kind.dtype.itemsize
        return np.frombuffer(int(text, 16).to_bytes(size, "little"), kind.dtype)[0]
    return kind.dtype.type(float(text))


def source_of(location: Any, is_traced: bool = False) -> Source | None:
    """Return the file and line of a location, the innermost one if locations are nested.

    The line of a library has the user's as its caller, as in a traced program.

    Args:
        location: the location in MLIR.
        is_traced: whether this process traced the code at that location.
    """
    pending, positions = [(location, "program")], []
    for _ in range(64):
        if not pending:
            break
        location, name = pending.pop()
        if isinstance(location, ir.FileLineColLoc):
            positions.append(source_at(location.filename, name, location.start_line, is_traced))
        elif isinstance(location, ir.NameLoc):
            pending.append((location.child_loc, location.name_str))
        elif isinstance(location, ir.CallSiteLoc):
            pending += [(location.caller, "program"), (location.callee, name)]
        elif isinstance(location, ir.FusedLoc) and location.locations:
            pending.append((location.locations[0], name))
    chosen = innermost_source([(position.code, position.instruction) for position in positions])
    return chosen or (positions[0] if positions else None)


#: The number of a file's lines per code object: making one takes longer than reading a line.
BLOCK = 64
_TEMPLATE = compile(f"{IMPORTED}\n" * BLOCK, "", "exec")
_TRACED = _TEMPLATE.replace(co_names=("traced",))
_OFFSETS = {line: start for start, _, line in reversed([*_TEMPLATE.co_lines()])}


# A code object's line is a C int.
_MOST_LINES = 2**31 - BLOCK


def source_at(file: str, function: str, line: int, is_traced: bool = False) -> Source:
    """Return a line of a file that Python may lack; line 0 for a number that no file has."""
    if not 0 <= line < _MOST_LINES:
        line = 0
    block, at = divmod(line, BLOCK)
    return Source(_lines_of(file, function, block, is_traced), _OFFSETS[at + 1])


@lru_cache(maxsize=256)
def sources_of(file: str, block: int, is_traced: bool = False) -> list[Source]:
    """Return the lines of a block, for programs in which each operation has its own line."""
    start = block * BLOCK
    lines = range(start, start + BLOCK)
    return [source_at(file, "program", line, is_traced) for line in lines]


@lru_cache(maxsize=4096)
def _lines_of(file: str, function: str, block: int, is_traced: bool) -> CodeType:
    return (_TRACED if is_traced else _TEMPLATE).replace(
        co_filename=PROGRAM_TEXT if file == "-" else file,
        co_name=function,
        co_qualname=function,
        co_firstlineno=block * BLOCK,
    )
