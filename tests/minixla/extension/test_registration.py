"""Operations from declarations: their functions, types, lists, names and kernels' choice."""

from __future__ import annotations

import copy
import inspect
import pickle
import warnings
from itertools import count

import jax
import numpy as np
import pytest

import minixla as mx
from minixla.core import operation_named
from minixla.extension import registration

_NUMBERS = count()


def define(inputs=("x: T",), outputs=("y: T",), attrs=("T: type",), name="", **options):
    """An operation of a name of its own, which gives its first input."""
    options.setdefault("shape_fn", mx.unchanged_shape)
    name = name or f"RegistrationTest{next(_NUMBERS)}"
    return mx.register_op(name, attrs=attrs, inputs=inputs, outputs=outputs, **options)


def composed(function, *args, **kwargs):
    op = define(*args, **kwargs)
    op.composition(function)
    return op


F32, S32 = np.float32, np.int32
X = np.float32([1, 2, 3])


def test_c3_without_kernels_an_operation_is_traced_but_not_run():
    op = define()
    graph = mx.make_graph(op.wrapper)(X)
    assert str(graph.output_shapes[0]) == "f32[3]"
    for function in (op.wrapper, mx.jit(op.wrapper)):
        with pytest.raises(
            mx.TransformError, match="no kernel is registered for the platform cpu"
        ) as e:
            function(X)
        for part in ("operands f32[3]", "T = f32", "no kernel is registered", "op.composition"):
            assert part in str(e.value)


def test_c4_inputs_and_outputs_are_in_declared_order():
    op = mx.register_op(
        "RegistrationZeroOut",
        inputs=["to_zero: int32"],
        outputs=["zeroed: int32"],
        shape_fn=mx.unchanged_shape,
    )
    assert str(op.definition) == (
        "RegistrationZeroOut(attrs=[], inputs=['to_zero: int32'], outputs=['zeroed: int32'])"
    )
    assert list(inspect.signature(op.wrapper).parameters) == ["to_zero"]
    kind = operation_named("custom.RegistrationZeroOut")
    assert kind is op.operation and issubclass(kind, mx.Operation)


@pytest.mark.parametrize("name", ["zero_out", "zeroOut", "Zero_Out", "Zero Out", "", "9Zero"])
def test_c5_names_are_camel_case(name):
    with pytest.raises(
        mx.AttributeValueError, match="is not a valid name of an operation"
    ) as caught:
        mx.register_op(name, inputs=["x: float"], outputs=["y: float"])
    assert "Names are CamelCase, with the project's in front" in str(caught.value)


DECLARED = {"inputs": ["x: float"], "outputs": ["y: float"]}


def _operation():
    return define(attrs=["n: int = 0"], **DECLARED)


# What calls one, and what the error says.
MISUSED = {
    "a name": (lambda: define(name=5), "5 is not a valid name of an operation"),
    "an attribute": (lambda: define(attrs=[5], **DECLARED), "5 is not a declaration"),
    "an input": (lambda: define(["x: float", None], ["y: float"], ()), "None is not a declaration"),
    "inputs": (lambda: define(5, ["y: float"], ()), "a list of declarations is 5"),
    "a shape function": (lambda: define(shape_fn=5), "the shape function cannot be called"),
    "a kernel": (lambda: _operation().kernel("cpu", 5), "a kernel cannot be called"),
    "a composition": (lambda: _operation().composition("f"), "a kernel cannot be called"),
    "a priority": (
        lambda: _operation().kernel("cpu", abs, priority="1"),
        "where must be a dictionary of attribute values,",
    ),
    "conditions": (
        lambda: _operation().kernel("cpu", abs, where=["n"]),
        "where must be a dictionary of attribute values,",
    ),
    "a gradient": (lambda: _operation().gradient(5), "the gradient cannot be called"),
    "a tangent": (lambda: _operation().jvp("f"), "the jvp rule cannot be called"),
    "a function": (lambda: mx.custom_op("my.name", 5), "the function cannot be called"),
    "a path": (lambda: mx.load_op_library(5), "5 is not a path"),
}


@pytest.mark.parametrize("name", MISUSED)
def test_what_cannot_be_registered_is_refused_at_once(name):
    run, problem = MISUSED[name]
    with pytest.raises(mx.AttributeValueError, match=problem) as caught:
        run()
    assert "test_registration.py" in str(caught.value)


def test_c4_and_c5_a_name_is_registered_once():
    first = define(name="RegistrationTwice")
    with pytest.raises(
        mx.AttributeValueError, match=r"custom.RegistrationTwice is registered"
    ) as e:
        define(name="RegistrationTwice", attrs=["T: {float}"])
    assert "T: type" in str(e.value) and "replace=True" in str(e.value)
    second = define(name="RegistrationTwice", replace=True)
    assert operation_named("custom.RegistrationTwice") is second.operation
    assert first.operation is not second.operation
    assert define(name="registration_other.RegistrationTwice").name.startswith("registration_other")


def test_c5_a_name_of_xlas_warns():
    with pytest.warns(UserWarning, match="Tanh is an operation of XLA's, too: yours is") as warned:
        mx.register_op("registration_shadow.Tanh", outputs=["y: float"])
    assert warned[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        define(name="registration_shadow.RegistrationTanh")


def test_c6_and_c36_the_docstring_says_what_the_declarations_do():
    op = define(
        attrs=["T: {float, int32}", "preserve_index: int >= 0 = 0", "mode: {'a', 'b'}"],
        inputs=["to_zero: T", "others: T"],
        outputs=["zeroed: T", "count: int32"],
        doc="""Zeroes all but one element.

        The rest is said here.

        to_zero: what is zeroed,
            on two lines.
        zeroed: the result.
        """,
    )
    assert op.wrapper.__doc__.rstrip() == inspect.cleandoc(
        """
        Zeroes all but one element.

        The rest is said here.

        Args:
            to_zero: an array of one of the types float, int32. what is zeroed, on two lines.
            others: an array of one of the types float, int32.
            mode: one of 'a', 'b'.
            preserve_index: an integer >= 0; default: 0.

        Returns:
            zeroed: an array of the type of `to_zero`. the result.
            count: an array of int32.
        """
    )
    with pytest.raises(mx.AttributeValueError, match="describes nothing_known, which is not decl"):
        define(doc="What it is.\n\nnothing_known: something.")


def test_c8_and_c36_several_outputs_are_a_named_tuple():
    op = composed(
        lambda ctx, y, z: (z * 2, y + 1),
        ["y: int32", "z: float"],
        ["a: float", "b: int32"],
        [],
        shape_fn=None,
    )
    assert list(inspect.signature(op.wrapper).parameters) == ["y", "z"]
    found = op(np.int32(3), X)
    assert found._fields == ("a", "b")
    np.testing.assert_array_equal(found.a, X * 2)
    assert found.b == 4


def string_to_number(ctx, texts):
    return texts.astype(ctx.attr("out_type").dtype)


def test_c9_and_c27_strings_are_for_the_reference_alone():
    attrs = ["out_type: {float, int32} = DT_FLOAT"]
    op = define(["string_tensor: string"], ["output: out_type"], attrs)
    assert list(inspect.signature(op.wrapper).parameters) == ["string_tensor", "out_type"]
    texts = np.array(["1.5", "2"], object)
    with pytest.raises(mx.TransformError, match="strings, but it has no reference kernel"):
        op(texts)
    op.kernel("reference", string_to_number)
    for given in (texts, ["1.5", "2"]):
        np.testing.assert_array_equal(op(given), np.float32([1.5, 2]))
    assert op(["3"], out_type="int32").dtype == np.int32
    with pytest.raises(
        mx.TransformError, match="strings, but it was given traced values"
    ) as caught:
        mx.jit(op.wrapper)(X)
    assert "XLA has no arrays of strings" in str(caught.value)


def test_c8_and_c9_a_string_and_a_number_as_results():
    op = define(["y: int32", "z: float"], ["a: string", "b: int32"], [])
    op.kernel("reference", lambda ctx, y, z: (np.array(str(z[0]), object), y + 1))
    assert list(inspect.signature(op.wrapper).parameters) == ["y", "z"]
    found = op(np.int32(3), X)
    assert found._fields == ("a", "b") and (found.a, found.b) == ("1.0", 4)
    with pytest.raises(mx.ShapeError, match="output 0 is declared as string"):
        mx.make_graph(op.operation())(3, X)


def test_c10_attributes_are_static_and_inputs_are_not():
    traced = []

    def function(ctx, x):
        traced.append(ctx.attr("n"))
        return x * ctx.attr("n")

    op = composed(function, attrs=["T: type", "n: int"])
    jitted = mx.jit(op.wrapper, static_argnums=1)
    for value in (1, 2, 3):
        np.testing.assert_array_equal(jitted(np.float32(value), 2), 2 * value)
    assert set(traced) == {2}
    before = len(traced)
    np.testing.assert_array_equal(jitted(np.float32(5), 3), 15)
    assert set(traced[before:]) == {3}


def test_c25_the_type_follows_from_the_argument():
    op = composed(lambda ctx, x: x, attrs=["T: {float, int32}"])
    assert op(X).dtype == np.float32
    assert op(np.int32([1])).dtype == np.int32
    with pytest.raises(mx.ShapeError, match="x gives T a value that it cannot have") as caught:
        op(np.complex64([1]))
    for part in ("x: T: T = complex64", "one of the types float, int32", "`T: {float, int32}`"):
        assert part in str(caught.value)
    with pytest.raises(mx.ShapeError, match="T must be one of the types float, int32, not string"):
        op("text")
    fixed = composed(lambda ctx, x: x, ["x: int32"], ["y: int32"], [])
    with pytest.raises(mx.ShapeError, match="operand 0 is f32, where s32 is declared"):
        fixed(X)


def test_c25_inputs_of_one_type_agree():
    op = composed(lambda ctx, x, y: x + y, ["x: T", "y: T"])
    with pytest.raises(mx.ShapeError, match="inputs do not agree about T") as caught:
        op(X, np.int32([1, 2, 3]))
    assert "x says T = f32, by x: T" in str(caught.value)


def test_c26_what_follows_from_inputs_is_no_parameter():
    op = define(attrs=["T: type", "n: int", "late: int = 3", "N: int"], inputs=["x: N * T"])
    signature = inspect.signature(op.wrapper)
    assert list(signature.parameters) == ["x", "n", "late"]
    assert signature.parameters["late"].default == 3
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'n'"):
        op([X])


def test_c27_a_type_of_an_output_alone_is_a_parameter():
    op = composed(
        lambda ctx, x: x.astype(ctx.attr("out_type").dtype),
        ["x: T"],
        ["output: out_type"],
        ["T: realnumbertype", "out_type: {float, int32} = DT_FLOAT"],
    )
    assert op(np.int32([1, 2])).dtype == np.float32
    assert op(X, out_type=np.int32).dtype == np.int32
    with pytest.raises(mx.AttributeValueError, match="one of the types float, int32, not bool"):
        op(X, out_type=bool)


@pytest.mark.parametrize(
    "attrs, given, says",
    [
        ("a: int >= 2", {"a": 1}, "must be >= 2, not 1"),
        ("e: {'apple', 'orange'}", {"e": "pear"}, "must be one of 'apple', 'orange', not 'pear'"),
        ("l: list(int) >= 3", {"l": [1, 2]}, "has length 2, less than the minimum 3"),
        ("t: {int32, float, bool}", {"t": np.float64}, "one of the types int32, float, bool"),
        ("i: int >= 1 = 1", {"i": 0}, "must be >= 1, not 0"),
        ("b: bool", {"b": "yes"}, "must be True or False"),
    ],
)
def test_c14_to_c23_wrong_attributes_of_a_call(attrs, given, says):
    op = define(attrs=["T: type", attrs])
    with pytest.raises(mx.AttributeValueError, match="has an invalid value") as caught:
        op(X, **given)
    assert says in str(caught.value) and "test_registration.py" in str(caught.value)


def test_c22_and_c23_defaults_are_taken_where_nothing_is_given():
    attrs = [
        "s: string = 'foo'",
        "i: int >= 1 = 1",
        "f: float = 1.0",
        "b: bool = true",
        "ty: type = DT_INT32",
        "sh: shape = { dim { size: 1 } dim { size: 2 } }",
        "te: tensor = { dtype: DT_INT32 int_val: 5 }",
        "l_empty: list(int) = []",
        "l_int: list(int) = [2, 3, 5, 7]",
    ]
    seen = {}

    def function(ctx, x):
        seen.update({each: ctx.attr(each) for each in ("s", "i", "f", "b", "sh", "l_empty")})
        seen.update(te=ctx.attr("te").array, ty=ctx.attr("ty").dtype, l_int=ctx.attr("l_int"))
        return x

    composed(function, attrs=["T: type", *attrs])(X)
    assert seen.pop("te") == 5
    assert seen == {
        "s": "foo",
        "i": 1,
        "f": 1.0,
        "b": True,
        "ty": np.int32,
        "sh": (1, 2),
        "l_empty": (),
        "l_int": (2, 3, 5, 7),
    }


def test_c31_lists_of_several_types():
    def function(ctx, arrays):
        return [each + each for each in arrays]

    op = composed(
        function, ["in: T"], ["out: T"], ["T: list({float, int32, uint8})"], shape_fn=None
    )
    given = [X, np.int32([1]), np.float32(2)]
    found = op(given)
    assert isinstance(found, list)
    assert [each.dtype for each in found] == [np.float32, np.int32, np.float32]
    for one, two in zip(found, given, strict=True):
        np.testing.assert_array_equal(one, two + two)
    with pytest.raises(mx.ShapeError, match=r"T = \['float', 'bool'\]"):
        op([X, np.array(True)])
    derived = mx.grad(lambda x: op([x, np.int32([1]), x * x])[2].sum())(X)
    np.testing.assert_array_equal(derived, 4 * X)


def test_c32_and_c39_lists_of_one_type():
    def function(ctx, arrays):
        return sum(arrays)

    same = composed(function, ["in: N * T"], ["out: T"], ["N: int", "T: type"], shape_fn=None)
    fixed = composed(function, ["in: N * int32"], ["out: int32"], ["N: int"], shape_fn=None)
    assert list(inspect.signature(same.wrapper).parameters) == ["in_"]
    np.testing.assert_array_equal(same(in_=(X, X, X)), 3 * X)
    np.testing.assert_array_equal(fixed([np.int32(1), np.int32(2)]), 3)
    assert mx.make_graph(same.wrapper)([X, X]).instructions[0].op.values["N"] == 2
    with pytest.raises(mx.ShapeError, match="the arrays of in are not all of one type") as caught:
        same([X, np.int32([1])])
    assert "in[1] is s32" in str(caught.value)
    with pytest.raises(mx.ShapeError, match="operand 0 is f32, where s32 is declared"):
        fixed([X])
    with pytest.raises(mx.ShapeError, match="in is not a sequence"):
        same(3)
    for wrong in (X, jax.numpy.asarray(X), {"a": X}):
        with pytest.raises(mx.ShapeError, match="in must be a list of arrays; got"):
            same(wrong)
    with pytest.raises(mx.ShapeError, match="in must be a list of arrays; got GraphTracer"):
        mx.jit(lambda x: same(x)).lower(X)


@pytest.mark.parametrize(
    "attrs, inputs, length, error",
    [
        (["N: int"], "x: N * float", 0, "must be >= 1, not 0"),
        (["N: int >= 2"], "x: N * float", 1, "must be >= 2, not 1"),
        (["N: int >= 2"], "x: N * float", 2, None),
        (["N: int >= 0"], "x: N * float", 0, None),
        (["T: list(type)"], "x: T", 0, "has length 0, less than the minimum 1"),
        (["T: list(type) >= 3"], "x: T", 2, "has length 2, less than the minimum 3"),
        (["T: list(type) >= 3"], "x: T", 3, None),
        (["T: list(type) >= 0"], "x: T", 0, None),
    ],
)
def test_c33_minimum_lengths(attrs, inputs, length, error):
    op = composed(lambda ctx, x: np.int32(len(x)), [inputs], ["n: int32"], attrs, shape_fn=None)
    if error is None:
        assert op([X] * length) == length
        return
    with pytest.raises((mx.ShapeError, mx.AttributeValueError), match=error):
        op([X] * length)


@pytest.mark.parametrize(
    "name, snake",
    [
        ("RegistrationSnakeOut", "registration_snake_out"),
        ("StringToNumber", "string_to_number"),
        ("AttrDefaultExampleForAllTypes", "attr_default_example_for_all_types"),
        ("RegistrationFFT2DBack", "registration_fft2d_back"),
    ],
)
def test_c35_functions_have_snake_case_names(name, snake):
    op = define(name=name)
    assert op.wrapper.__name__ == op.operation.builder_name == snake


def test_c37_and_c38_a_wrapper_is_a_function_of_ones_module():
    op = composed(lambda ctx, x: x * ctx.attr("n"), attrs=["T: type", "n: int"])

    def twice(x):
        return op.wrapper(x, n=2)

    np.testing.assert_array_equal(mx.jit(twice)(X), 2 * X)
    assert op.wrapper.__module__ == __name__


def test_attributes_may_have_names_that_operations_have():
    op = composed(
        lambda ctx, x: x * len(ctx.attr("shape")) + ctx.attr("name"),
        attrs=["T: type", "shape: shape", "name: int = 1", "jvp: bool = false"],
    )
    np.testing.assert_array_equal(op(X, shape=(2, 3)), 2 * X + 1)
    np.testing.assert_array_equal(op(X, (2,), name=5, jvp=True), X + 5)
    with pytest.raises(mx.InvalidArgumentError, match="attribute 'other' does not exist"):
        composed(lambda ctx, x: ctx.attr("other"))(X)


def test_c59_a_type_attribute_with_a_default_is_inferred_all_the_same():
    op = composed(lambda ctx, x: x, attrs=["T: {float, int32} = DT_INT32"])
    assert op(X).dtype == np.float32


PICKLED = composed(lambda ctx, x: x * ctx.attr("n"), attrs=["T: type", "n: int"])


def test_operations_are_pickled_by_name():
    graph = mx.make_graph(lambda x: PICKLED(x, 3))(X)
    assert pickle.loads(pickle.dumps(PICKLED)) is PICKLED
    again = pickle.loads(pickle.dumps(graph))
    assert again.instructions[0].op is graph.instructions[0].op
    assert copy.deepcopy(graph.instructions[0].op) is graph.instructions[0].op
    assert "registration-test" in str(graph) and "n=3" in str(graph)


def test_what_returns_the_wrong_number_of_things():
    op = define()
    op.kernel("reference", lambda ctx, x: (x, x))
    with pytest.raises(mx.TransformError, match=r"the reference kernel at .* returned a value of"):
        mx.reference(op.wrapper)(X)
    wide = define()
    wide.kernel("reference", lambda ctx, x: np.concatenate([x, x]))
    with pytest.raises(mx.ShapeError, match="returns another y than declared") as caught:
        mx.reference(wide.wrapper)(X)
    assert "declared: f32[3]" in str(caught.value) and "float32[6]" in str(caught.value)
    staged = define()
    staged.kernel("cpu", lambda ctx, x: mx.numpy.concatenate([x, x]))
    with pytest.raises(
        mx.ShapeError, match=r"the cpu kernel at .*returns other results than declared"
    ):
        staged(X)


def test_c65_an_operation_without_shapes():
    op = define(shape_fn=None)
    with pytest.raises(mx.ShapeError, match="the shapes of its results are unknown"):
        op(X)


def test_c62_a_shape_function_and_a_kernel_refuse():
    def shape(ctx, x):
        ctx.require(len(x) == 1, "expects a 1-D vector.")
        return x

    op = define(shape_fn=shape, attrs=["T: type", "n: int = 0"])

    @op.kernel("reference")
    def _(ctx, x):
        ctx.require(x[0] >= 0, "the first element is negative")
        return x

    with pytest.raises(mx.InvalidArgumentError, match="expects a 1-D vector") as caught:
        op(np.ones((2, 2), np.float32))
    for part in ("x f32[2,2]", "n = 0", "test_registration.py", op.operation.builder_name):
        assert part in str(caught.value)
    with pytest.raises(ValueError, match="the first element is negative"):
        mx.reference(op.wrapper)(-X)


def test_a_cell_that_runs_again_replaces_its_operation(monkeypatch):
    monkeypatch.setattr(registration, "notebook_cell", lambda file: "In[3]")
    define(name="RegistrationCell")
    assert define(name="RegistrationCell", attrs=["T: {float}"]).name.endswith("RegistrationCell")
