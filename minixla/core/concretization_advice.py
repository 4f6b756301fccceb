"""Alternatives to code that needs the value of a traced array, such as `float(x)`."""

from __future__ import annotations

import ast
import builtins
import cmath
import math
import re
from collections.abc import Callable
from functools import reduce

import numpy as np

from minixla.core.source import Expression, text_of

Advice = str | None

#: Replacements for functions of `math` and `cmath` whose names mx.numpy lacks.
OF_MATH = {
    "dist": "mx.numpy.linalg.norm(mx.numpy.subtract({0}, {1}))",
    "erf": "mx.ops.erf({0})",
    "erfc": "mx.ops.erfc({0})",
    "factorial": "mx.scipy.special.factorial({0})",
    "fma": "mx.numpy.add(mx.numpy.multiply({0}, {1}), {2})",
    "fsum": "mx.numpy.sum({0})",
    "gamma": "mx.scipy.special.gamma({0})",
    "isqrt": "mx.numpy.floor(mx.numpy.sqrt({0}))",
    "ldexp": "{0} * 2.0 ** {1}",
    "lgamma": "mx.ops.lgamma({0})",
    "phase": "mx.numpy.angle({0})",
    "polar": "mx.numpy.abs({0}), mx.numpy.angle({0})",
    "rect": "{0} * mx.numpy.exp(1j * {1})",
    "sumprod": "mx.numpy.dot({0}, {1})",
}
# Functions of `math` without a replacement.
_WITHOUT = ("comb", "perm", "ulp")
_MAKERS: dict[str, str] = dict.fromkeys(("asanyarray", "asarray", "ascontiguousarray"), "asarray")
_MAKERS["array"] = "array"
# Python's functions that compare, by the number of arguments if it matters.
_BUILTINS: dict[object, str] = {
    "all": "mx.numpy.all({0})",
    "any": "mx.numpy.any({0})",
    "max": "mx.numpy.maximum({0}, {1})",
    "min": "mx.numpy.minimum({0}, {1})",
    ("max", 1): "mx.numpy.max({0})",
    ("min", 1): "mx.numpy.min({0})",
    "sorted": "mx.numpy.sort({0})",
}


def advice_for(wanted: str, expression: Expression | None) -> str:
    """Return the alternative for an expression that needs `wanted`, such as `a Python bool`."""
    specific = _SPECIFIC.get(wanted)
    advice = None if expression is None or specific is None else specific(expression)
    return advice or _GENERAL[wanted]


def _filled(template: str, call: ast.Call) -> Advice:
    """Fill a template with the arguments of a call; None if there are too few."""
    arguments = [_as_operand(argument) for argument in call.args]
    try:
        return f"Write {template.format(*arguments)}."
    except IndexError:
        return None


def _as_operand(node: ast.expr) -> str:
    """Write an argument for functions of mx.numpy: arrays in place of lists."""
    if isinstance(node, ast.GeneratorExp):
        node = ast.ListComp(node.elt, node.generators)
    is_list = isinstance(node, (ast.List, ast.Tuple, ast.ListComp))
    return f"mx.numpy.asarray({text_of(node)})" if is_list else text_of(node)


# Booleans: tests of statements, logical operators, functions that compare.


def _of_bool(expression: Expression) -> Advice:
    node = expression.node
    if isinstance(node, ast.Call):
        name = text_of(node.func)
        if name == "bool":
            return f"Write {_in_parentheses(node.args[0])} != 0."
        template = _BUILTINS.get((name, len(node.args))) or _BUILTINS.get(name)
        if template:
            return _filled(template, node)
    return _of_test(expression)


def _of_test(expression: Expression) -> Advice:
    """Return the array notation of a test and, for a statement, of its branches."""
    written: str | None = None
    child: ast.AST | None = None
    for node in (expression.node, *expression.parents):
        if isinstance(node, (ast.If, ast.While, ast.IfExp, ast.Assert)):
            if child in (None, node.test):
                return _of_branch(node, written or _of_operator(node.test) or text_of(node.test))
            break
        if isinstance(node, ast.comprehension):
            return "Choose elements with mx.numpy.where, or with a mask: x[mask] outside of jit."
        of_operator = None if isinstance(node, ast.stmt) else _of_operator(node)
        if isinstance(node, ast.stmt) or (of_operator is None and child is not None):
            break
        written, child = of_operator, node
    return None if written is None else f"Write {written}."


def _of_operator(node: ast.AST) -> Advice:
    """Return the array notation of a logical operator; None for other expressions."""
    match node:
        case ast.UnaryOp(ast.Not(), operand):
            return f"mx.numpy.logical_not({_of_operator(operand) or text_of(operand)})"
        case ast.BoolOp(op, values):
            name = "and" if isinstance(op, ast.And) else "or"
            terms = [_of_operator(value) or text_of(value) for value in values]
            return reduce(lambda first, term: f"mx.numpy.logical_{name}({first}, {term})", terms)
        case ast.Compare(left, [_, _, *_] as ops, others):
            triples = zip([left, *others], ops, others, strict=False)
            pairs = [text_of(ast.Compare(one, [op], [other])) for one, op, other in triples]
            return " & ".join([f"({pair})" for pair in pairs])
        case ast.Compare(one, [ast.In() | ast.NotIn() as op], [several]):
            inverted = ", invert=True" if isinstance(op, ast.NotIn) else ""
            return f"mx.numpy.isin({text_of(one)}, {text_of(several)}{inverted})"
    return None


def _of_branch(node: ast.If | ast.While | ast.IfExp | ast.Assert, test: str) -> str:
    if isinstance(node, ast.IfExp):
        return f"Write mx.numpy.where({test}, {text_of(node.body)}, {text_of(node.orelse)})."
    if isinstance(node, ast.While):
        return "Write the loop with mx.while_loop(cond_fun, body_fun, init_val)."
    if isinstance(node, ast.Assert):
        return f"Return {test}, and assert it outside; mx.debug_nans finds the origin of a NaN."
    return (
        f"Write the branches as functions, mx.cond({test}, true_fun, false_fun, *operands), or "
        f"choose between values with mx.numpy.where({test}, x, y)."
    )


# Scalars.


def _of_number(expression: Expression) -> Advice:
    node = expression.node
    if not isinstance(node, ast.Call):
        return _of_text(expression) or _of_assignment(expression)
    before, _, name = text_of(node.func).rpartition(".")
    conversion = _of_conversion(node)
    if conversion is not None or name in _WITHOUT or before not in ("", "math", "cmath"):
        return conversion
    if name == "log" and len(node.args) == 2:
        return _filled("mx.numpy.log({0}) / mx.numpy.log({1})", node)
    if name in OF_MATH:
        return _filled(OF_MATH[name], node)
    is_known = name in (*dir(math), *dir(cmath))
    return f"Write mx.numpy.{name}({', '.join(map(text_of, node.args))})." if is_known else None


def _of_conversion(call: ast.Call) -> Advice:
    """Return the advice for a call of a scalar type of Python or NumPy."""
    before, _, name = text_of(call.func).rpartition(".")
    kind = {"": vars(builtins), "np": vars(np), "numpy": vars(np)}.get(before, {}).get(name)
    is_type = isinstance(kind, type) and issubclass(kind, (complex, float, int, np.number))
    if len(call.args) != 1 or not is_type or kind is bool:
        return None
    written, value = text_of(call.func), _in_parentheses(call.args[0])
    acts = "a traced value acts as a scalar"
    return f"Remove {written}(): {acts}; {value}.astype({written}) converts it."


def _in_parentheses(node: ast.expr) -> str:
    """Write an operand of another expression, in parentheses if necessary."""
    is_atom = isinstance(node, (ast.Name, ast.Attribute, ast.Call, ast.Subscript))
    return text_of(node) if is_atom else f"({text_of(node)})"


def _of_text(expression: Expression) -> Advice:
    """Return the advice for `"%.3f" % x`, `"{:.3f}".format(x)` and `f"{x:.3f}"`."""
    match expression.node:
        case ast.BinOp(left, ast.Mod(), right):
            text = re.sub(r"%(\.?\d*[a-z])", r"{:\1}", _literal(left))
            values = right.elts if isinstance(right, ast.Tuple) else [right]
        case ast.Call(ast.Attribute(string), values):
            text = _literal(string)
        case ast.JoinedStr(parts) as string:
            text = _literal(string)
            values = [part.value for part in parts if isinstance(part, ast.FormattedValue)]
        case _:
            return None
    texts = ", ".join(map(text_of, values))
    return f'Print it while the program runs: mx.debug_print("{text}", {texts}).'


def _literal(node: ast.AST) -> str:
    """Return the text of a string or an f-string as a template for `format`."""
    match node:
        case ast.Constant(value):
            return str(value)
        case ast.FormattedValue(_, _, ast.AST() as form):
            return f"{{:{_literal(form)}}}"
        case ast.JoinedStr(parts):
            braced = [isinstance(part, ast.Constant) for part in parts]
            texts = zip(map(_literal, parts), braced, strict=True)
            return "".join([re.sub("([{}])", r"\1\1", t) if flag else t for t, flag in texts])
    return "{}"


# Indices and arrays.


def _of_index(expression: Expression) -> Advice:
    match expression.node:
        case ast.Call(ast.Name("range"), limits):
            bounds = ", ".join(
                ["0"] * (len(limits) == 1) + [text_of(limit) for limit in limits[:2]]
            )
            return f"Write the loop with mx.fori_loop({bounds}, body_fun, init_val)."
        case ast.Subscript(value, index):
            advice, whole = _of_assignment(expression), f"mx.numpy.asarray({text_of(value)})"
            if advice is None and isinstance(index, ast.Slice):
                part = "takes a part of a fixed size at a variable position."
                return f"Sizes must be known: mx.ops.dynamic_slice({whole}, ...) {part}"
            return advice or f"Write {whole}[{text_of(index)}]."
    return None


def _of_assignment(expression: Expression) -> Advice:
    """Return the advice for `array[index] = value`, as NumPy's arrays hold only scalars."""
    match expression:
        case (ast.Subscript() as node, (ast.Assign() as parent, *_)) if node in parent.targets:
            array, index, value = map(text_of, (node.value, node.slice, parent.value))
            return f"Write {array} = mx.numpy.asarray({array}).at[{index}].set({value})."
    return None


def _of_array(expression: Expression) -> Advice:
    node = expression.node
    if not isinstance(node, ast.Call):
        return _of_index(expression)
    text, texts = text_of(node.func), ", ".join(map(text_of, node.args))
    maker = _MAKERS.get(text.rpartition(".")[2])
    if maker is not None:
        return f"Write mx.numpy.{maker}({texts})."
    return _of_conversion(node) or (
        f"{text} reads values: use a function of mx.numpy, mx.nn or jax.numpy; "
        f"mx.debug_callback({text}, {texts}) calls it with the values while the program runs, for "
        "its other effects."
    )


_NUMBERS = "a Python int", "a Python float", "a Python complex"
_SPECIFIC: dict[str, Callable[[Expression], Advice]] = dict.fromkeys(_NUMBERS, _of_number)
_SPECIFIC |= {"a Python bool": _of_bool, "a Python index": _of_index}
_SPECIFIC |= {"a NumPy array": _of_array, "a string": _of_text}
_GENERAL = {
    **dict.fromkeys(
        _NUMBERS,
        "Compute with functions of mx.numpy instead of Python's; to see the value, return it, or "
        "mx.debug_print it.",
    ),
    "a Python bool": "Choose between values with mx.numpy.where, or between functions with "
    "mx.cond, instead of Python's if; loop with mx.while_loop.",
    "a Python index": "Sizes must be known while tracing. Write a loop as mx.fori_loop, and an "
    "element as mx.numpy.asarray(table)[index].",
    "a NumPy array": "Use functions of mx.numpy, which accept traced values.",
    "a Python scalar": "Remove .item(): a traced value acts as a scalar; to see it, return it, "
    "or mx.debug_print it.",
    "a list": "Remove .tolist(): iterating over an array yields its elements; to see values, "
    "return them, or mx.debug_print them.",
    "a string": 'Print it while the program runs: mx.debug_print("{}", x).',
}
