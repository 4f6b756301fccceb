"""Libraries that describe their operations."""

import ctypes
from pathlib import Path

import jax
import numpy as np
import pytest

import minixla as mx
from minixla.core import operation_named, registry
from minixla.core.errors import AttributeValueError, ShapeError
from minixla.extension.partial_shapes import PartialShape

SOURCE = """
#include "minixla/op_library.h"
namespace ffi = xla::ffi;

ffi::Error Doubled(ffi::ThreadPool pool, ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y) {
  const float* given = x.typed_data();
  float* found = y->typed_data();
  minixla::Shard(pool, x.element_count(), 2, [&](int64_t start, int64_t limit) {
    for (int64_t i = start; i < limit; ++i) found[i] = 2 * given[i];
  });
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(DoubledF32, Doubled,
    ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<ffi::Buffer<ffi::F32>>()
        .Ret<ffi::Buffer<ffi::F32>>());

ffi::Error Scaled(ffi::Buffer<ffi::S32> x, ffi::ResultBuffer<ffi::S32> y, int64_t factor,
                  std::string_view mode) {
  OP_REQUIRES(mode == "plain" || factor != 7, "Need another factor than ", factor);
  for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = factor * x.typed_data()[i];
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(ScaledS32, Scaled,
    ffi::Ffi::Bind().Arg<ffi::Buffer<ffi::S32>>().Ret<ffi::Buffer<ffi::S32>>()
        .Attr<int64_t>("factor").Attr<std::string_view>("mode"));

ffi::Error Counted(ffi::RemainingArgs, ffi::ResultBuffer<ffi::F32> y, int64_t n) {
  std::fill_n(y->typed_data(), y->element_count(), n);
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(CountedF32, Counted,
    ffi::Ffi::Bind().RemainingArgs().Ret<ffi::Buffer<ffi::F32>>().Attr<int64_t>("N"));

MINIXLA_OP("LdCounted").Attr("N: int").Input("x: N * float").Output("y: float")
    .ShapeFn(minixla::UnchangedShape).Kernel("cpu", "CountedF32", {}, 0, {"N"});
MINIXLA_OP("LdDoubled").Input("x: float").Output("y: float")
    .Doc("Twice \\"x\\".\\n\\nx: any array").ShapeFn(minixla::UnchangedShape)
    .Kernel("cpu", "DoubledF32");
MINIXLA_OP("LdScaled").Attr("factor: int = 3").Attr("mode: {'plain', 'odd'} = 'plain'")
    .Input("x: int32").Output("y: int32").ShapeFn(minixla::UnchangedShape)
    .Kernel("cpu", "ScaledS32");
MINIXLA_OP("LdMerged").Input("a: float").Input("b: float").Output("c: float")
    .ShapeFn([](minixla::InferenceContext& c) {
      c.set_output(0, c.Merge(c.WithRank(c.input(0), 2), c.WithRank(c.input(1), 2)));
    });
MINIXLA_OP("LdThree").Input("x: float").Output("y: float")
    .ShapeFn([](minixla::InferenceContext& c) {
      c.set_output(0, c.Matrix(c.Dim(c.input(0), 0), 3));
    });
MINIXLA_OP("LdRepeated").Attr("n: int >= 1").Input("x: float").Output("y: float")
    .ShapeFn([](minixla::InferenceContext& c) {
      c.set_output(0, {c.Multiply(c.int_attr("n"), c.Dim(c.input(0), -1))});
    });
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = tmp_path_factory.mktemp("library") / "operations.cc"
    source.write_text(SOURCE)
    return Path(mx.build_op_library([source]))


@pytest.fixture(scope="module")
def library(path):
    return mx.load_op_library(path)


def test_c54_a_library_is_a_module_with_a_function_for_each_operation(library, path):
    assert library is mx.load_op_library(str(path))
    assert library.__file__ == str(path)
    names = [name for name in dir(library) if name.startswith("ld_")]
    own = ["counted", "doubled", "merged", "repeated", "scaled", "three"]
    assert names == [f"ld_{each}" for each in own]
    assert 'Twice "x".' in library.ld_doubled.__doc__
    assert library.LdScaled.definition.attributes["factor"].default == 3


@pytest.mark.parametrize("size", [0, 1, 7, 5000])
def test_c43_kernels_share_work_among_threads(library, size):
    x = np.arange(size, dtype=np.float32)
    np.testing.assert_array_equal(mx.jit(library.ld_doubled)(x), 2 * x)


def test_c12_attributes_arrive_in_one_type(library):
    x = np.arange(4, dtype=np.int32)
    np.testing.assert_array_equal(library.ld_scaled(x), 3 * x)
    for factor in (np.int8(5), 5, np.int64(5)):
        np.testing.assert_array_equal(library.ld_scaled(x, factor=factor, mode="odd"), 5 * x)


def test_c25_libraries_say_which_inferred_attributes_their_kernels_get(library):
    x = np.zeros(2, np.float32)
    np.testing.assert_array_equal(library.ld_counted([x, x, x]), [3, 3])


def test_c62_checks_of_kernels_name_the_operation(library):
    x = np.arange(4, dtype=np.int32)
    with pytest.raises(Exception, match="Need another factor than 7") as caught:
        jax.block_until_ready(mx.jit(lambda x: library.ld_scaled(x, 7, "odd"))(x))
    assert "ld_scaled" in str(caught.value)


def shapes(operation, *given):
    record = operation.operation
    kinds = [PartialShape(each) for each in given]
    return [str(each) for each in record().partial_shapes(kinds)]


@pytest.mark.parametrize(
    ("name", "given", "wanted"),
    [
        ("LdMerged", [(2, None), (None, 3)], "[2,3]"),
        ("LdMerged", [None, (None, 3)], "[?,3]"),
        ("LdThree", [(7, 9)], "[7,3]"),
        ("LdThree", [None], "[?,3]"),
        ("LdThree", [(None, 2, 2)], "[?,3]"),
        ("LdDoubled", [None], "?"),
        ("LdDoubled", [()], "[]"),
        ("LdDoubled", [(10, 20)], "[10,20]"),
    ],
)
def test_c65_shape_functions_in_c_know_unknown_sizes(library, name, given, wanted):
    assert shapes(getattr(library, name), *given) == [wanted]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ([(2, 3), (2, 4)], "Dimension 1 in both shapes must be equal, but are 3 and 4"),
        ([(2,), (2, 4)], "Shape must be rank 2 but is rank 1"),
    ],
)
def test_c65_shape_functions_in_c_refuse_what_does_not_fit(library, given, says):
    arrays = [np.zeros(each, np.float32) for each in given]
    with pytest.raises(ShapeError, match=says):
        mx.make_graph(library.ld_merged)(*arrays)


def test_shape_functions_in_c_read_attributes(library):
    graph = mx.make_graph(lambda x: library.ld_repeated(x, n=4))(np.zeros((2, 3), np.float32))
    assert str(graph.output_shapes[0]) == "f32[12]"


def test_c54_what_is_no_library_is_refused(tmp_path):
    with pytest.raises(AttributeValueError, match="cannot be loaded"):
        mx.load_op_library(tmp_path / "missing.so")
    (text := tmp_path / "text.so").write_text("no library")
    with pytest.raises(AttributeValueError, match="cannot be loaded"):
        mx.load_op_library(text)
    (source := tmp_path / "empty.cc").write_text("int one() { return 1; }")
    with pytest.raises(AttributeValueError, match="describes no operation") as caught:
        mx.load_op_library(mx.build_op_library([source]))
    assert "MINIXLA_OP" in str(caught.value)


def built(folder: Path, name: str, text: str) -> Path:
    (source := folder / name).write_text('#include "minixla/op_library.h"\n' + text)
    return Path(mx.build_op_library([source]))


def test_c54_another_version_is_refused(tmp_path):
    text = "#undef XLA_FFI_API_MAJOR\n#define XLA_FFI_API_MAJOR 9\n"
    (source := tmp_path / "version.cc").write_text(
        f'#include "xla/ffi/api/ffi.h"\n{text}#include "minixla/op_library.h"\n'
    )
    with pytest.raises(AttributeValueError, match=r"another version(.|\n)*interface 9\.3"):
        mx.load_op_library(mx.build_op_library([source]))


# Stands for many libraries: a copy of it describes what the environment says when it is loaded, as
# `name type symbol` with `none` where there is no shape function. Its code is a product.
VARYING = """
#include <cstdlib>
static const bool kDescribed = [] {
  std::istringstream words(std::getenv("LD_DESCRIBED"));
  for (std::string name, type, symbol; words >> name >> type >> symbol;) {
    auto& made = minixla::Library::Add(name).Input("x: " + type).Output("y: " + type);
    if (symbol != "none") made.ShapeFn(minixla::UnchangedShape).Kernel("cpu", symbol);
  }
  return true;
}();
static const float kFactor = std::atof(std::getenv("LD_FACTOR"));
xla::ffi::Error Run(xla::ffi::Buffer<xla::ffi::F32> x, xla::ffi::ResultBuffer<xla::ffi::F32> y) {
  for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = kFactor * x.typed_data()[i];
  return xla::ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(LdRun, Run, xla::ffi::Ffi::Bind()
    .Arg<xla::ffi::Buffer<xla::ffi::F32>>().Ret<xla::ffi::Buffer<xla::ffi::F32>>());
"""


@pytest.fixture
def describing(tmp_path, monkeypatch):
    """A function of a file's name, what the library there describes, and the factor of its code."""
    content = built(tmp_path, "varying.cc", VARYING).read_bytes()

    def made(name: str, text: str, factor: int = 1) -> Path:
        monkeypatch.setenv("LD_DESCRIBED", text)
        monkeypatch.setenv("LD_FACTOR", str(factor))
        (path := tmp_path / name).unlink(missing_ok=True)
        path.write_bytes(content + bytes([factor]))
        return path

    return made


REFUSED = {
    "LdDoubled double LdRun": (
        r"registered already, and differs(.|\n)*U5: x: an array has another type"
    ),
    "LdOfPython float LdRun": "LdOfPython is registered already",
    "LdTwice float LdRun LdTwice float LdRun": "describes LdTwice twice",
    "LdBare float none": "has no shape function",
    "LdNone float Nothing": "no symbol 'Nothing'",
    "LdWrong flot LdRun": "flot",
}


@pytest.mark.parametrize("text", REFUSED)
def test_c54_a_library_is_refused_as_a_whole(describing, library, text):
    mx.register_op("LdOfPython", inputs=["x: float"], outputs=["y: float"], replace=True)
    with pytest.raises(AttributeValueError, match=REFUSED[text]):
        mx.load_op_library(describing("refused.so", f"LdBefore float LdRun {text}"))
    assert registry.registered("custom.LdBefore") is None


def test_c54_a_library_that_was_built_again_replaces_its_operations(describing):
    x, text = np.float32([1, 2]), "LdRebuilt float LdRun"
    old = mx.load_op_library(path := describing("ours.so", text, 2))
    stored = mx.make_graph(old.ld_rebuilt)(x).stablehlo()
    before = mx.jit(old.ld_rebuilt)
    np.testing.assert_array_equal(before(x), 2 * x)

    describing("ours.so", text, 3)
    refused = "has changed since this process loaded it(.|\n)*build to another path"
    with pytest.raises(AttributeValueError, match=refused):
        mx.load_op_library(path)
    with pytest.raises(AttributeValueError, match=refused):
        old.LdRebuilt.kernel("cpu", ffi="LdRun", library=path, priority=1)

    new = mx.load_op_library(describing("again.so", text, 3))
    np.testing.assert_array_equal(mx.jit(new.ld_rebuilt)(x), 3 * x)
    np.testing.assert_array_equal(mx.import_stablehlo(stored)(x), 3 * x)
    np.testing.assert_array_equal(before(x), 2 * x)
    np.testing.assert_array_equal(old.ld_rebuilt(x), 2 * x)
    assert operation_named("custom.LdRebuilt") is new.LdRebuilt.operation


def test_libraries_do_not_see_each_other(tmp_path, path):
    text = 'MINIXLA_OP("LdAlone").Input("x: float").Output("y: float")'
    other = built(tmp_path, "alone.cc", f"{text}.ShapeFn(minixla::UnchangedShape);")
    described = ctypes.CDLL(str(other)).minixla_op_library
    described.restype = ctypes.c_char_p
    assert b"LdAlone" in described() and b"LdDoubled" not in described()
