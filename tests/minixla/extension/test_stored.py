"""Operations of one's own in stored programs."""

import itertools
import warnings
from typing import Any

import numpy as np
import pytest

import minixla as mx
from minixla.core.errors import ImportError_
from minixla.tools.graph_parts import inlined

NAMES = itertools.count()
X = np.linspace(-2, 3, 6, dtype=np.float32).reshape(2, 3)
ATTRS = {
    "n": ("int", 3),
    "f": ("float", 0.1),
    "b": ("bool", True),
    "s": ("string", 'a "b"\\ü'),
    "e": ("{'apple', 'pear'}", "pear"),
    "t": ("type", "bfloat16"),
    "sh": ("shape", (2, None, 3)),
    "c": ("tensor", np.array([[1.5, np.nan]], np.float32)),
    "ln": ("list(int)", (1, -2)),
    "le": ("list(int)", ()),
    "lf": ("list(float)", (0.5, np.inf)),
    "lb": ("list(bool)", (True, False)),
    "ls": ("list(string)", ("a", "")),
    "lt": ("list(type)", ("float", "s8")),
    "lh": ("list(shape)", ((1,), ())),
}


def scaled(version: int = 0, **options: Any) -> Any:
    op = mx.register_op(
        f"StScaled{next(NAMES)}",
        attrs=["T: {float, double}", "n: int"],
        inputs=["x: T"],
        outputs=["y: T"],
        shape_fn=mx.unchanged_shape,
        version=version,
        **options,
    )
    op.kernel("reference", lambda context, x: x * x.dtype.type(context.attr("n")))
    op.gradient(lambda context, grad: [grad * np.asarray(context.attr("n"), grad.dtype)])
    return op


def by_ours(op: Any, library: Any) -> None:
    op.kernel("cpu", lambda context, x: x * np.asarray(context.attr("n"), x.dtype))


def by_composition(op: Any, library: Any) -> None:
    op.kernel("any", lambda context, x: x * np.asarray(context.attr("n"), x.dtype))


def by_cpp(op: Any, library: Any) -> None:
    op.kernel("cpu", ffi="scaled", library=library, T="float")


def names(function: Any) -> list[str]:
    return [step.op.name for step in inlined(function.graph).instructions]


@pytest.mark.parametrize("add", [by_ours, by_composition, by_cpp])
@pytest.mark.parametrize("way", ["text", "export"])
def test_a_stored_program_has_the_operation_again(add, way, library):
    op = scaled(version=2)
    add(op, library)

    def function(x: Any) -> Any:
        return op(x, n=3)

    stored = mx.export(function, X) if way == "export" else mx.make_graph(function)(X).stablehlo()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing of the operation is lost
        again = mx.import_stablehlo(stored)
    assert names(again) == [op.name]
    (step,) = inlined(again.graph).instructions
    assert step.op is mx.make_graph(function)(X).instructions[0].op
    np.testing.assert_array_equal(mx.jit(again)(X), 3 * X)
    np.testing.assert_array_equal(mx.reference(again)(X), 3 * X)
    np.testing.assert_array_equal(mx.grad(lambda x: again(x).sum())(X), np.full_like(X, 3))
    np.testing.assert_array_equal(mx.vmap(again)(X[None]), 3 * X[None])


@pytest.mark.parametrize("name", ATTRS)
def test_each_kind_of_attribute_is_kept(name):
    kind, value = ATTRS[name]
    attrs = [f"{name}: {kind}" + " >= 0" * kind.startswith("list")]
    op = mx.register_op(
        f"StKind{next(NAMES)}", attrs=attrs, inputs=["x: float"], outputs=["y: float"]
    )
    op.composition(lambda context, x: x + x)
    graph = mx.make_graph(lambda x: op(x, **{name: value}))(X)
    again = mx.import_stablehlo(graph.stablehlo())
    (first,), (second,) = graph.instructions, again.graph.instructions
    if kind == "tensor":
        np.testing.assert_array_equal(first.op.attr(name).array, second.op.attr(name).array)
    else:
        assert second.op is first.op


def test_lists_of_arrays_are_kept():
    op = mx.register_op(
        f"StSum{next(NAMES)}",
        attrs=["N: int", "T: list(type)"],
        inputs=["x: N * float", "y: T"],
        outputs=["z: float"],
    )
    op.composition(lambda context, x, y: sum(x))
    graph = mx.make_graph(lambda *xs: op(xs[:2], xs[2:]))(X, X, X.astype(np.int32))
    again = mx.import_stablehlo(graph.stablehlo())
    assert again.graph.instructions[0].op is graph.instructions[0].op


def test_a_program_of_a_newer_version_is_refused():
    op = scaled(version=2)
    by_composition(op, None)
    text = mx.make_graph(lambda x: op(x, n=3))(X).stablehlo()
    assert "version = 2" in text
    with pytest.raises(ImportError_, match=r"has version 3, registered is 2(.|\n)*or a newer"):
        mx.import_stablehlo(text.replace("version = 2", "version = 3"))
    older = mx.import_stablehlo(text.replace("version = 2", "version = 1"))
    assert names(older) == [op.name]


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ('"n" = 3 : i64', '"n" = 3.5 : f64', "n must be"),
        (', "n" = 3 : i64', "", "has no attribute n"),
        ('"T" = 11 : i32', '"T" = 99 : i32', "99 is not the code of an element type"),
        ('"T" = 11 : i32', '"T" = 12 : i32', "operand 0 is f32, where f64 is declared"),
    ],
)
def test_attributes_that_do_not_fit_are_refused(before, after, says):
    op = scaled()
    by_composition(op, None)
    text = mx.make_graph(lambda x: op(x, n=3))(X).stablehlo()
    assert before in text
    with pytest.raises(mx.MinixlaError, match=says):
        mx.import_stablehlo(text.replace(before, after))


def test_what_is_not_registered_still_shows():
    op = scaled()
    by_composition(op, None)
    text = mx.make_graph(lambda x: op(x, n=3))(X).stablehlo().replace(op.name, "their.Unknown")
    (step,) = mx.import_stablehlo(text).graph.instructions
    assert step.op.name == "CompositeCall"
    by_code = scaled()
    text = mx.make_graph(lambda x: by_code(x, n=3))(X).stablehlo()
    again = mx.import_stablehlo(text.replace(by_code.name, "their.Unknown"))
    assert names(again) == ["CustomCall"]
    assert "their.Unknown" in str(again.graph)
    with pytest.raises(mx.TransformError, match=r"their\.Unknown(.|\n)*Load its library"):
        mx.jit(again)(X)
