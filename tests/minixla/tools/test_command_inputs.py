"""What commands read: programs with symbolic sizes."""

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

from minixla.tools.command_line import main


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A program for arrays f32[b,4] and f32[4,2] in two forms, and files of arguments."""
    path = tmp_path_factory.mktemp("symbolic")
    shapes = jax.export.symbolic_args_specs(
        [np.ones((2, 4), "f4"), np.ones((4, 2), "f4")], ["b, 4", "4, 2"], constraints=["b >= 2"]
    )
    exported = jax.export.export(jax.jit(lambda x, w: jnp.tanh(x @ w).sum()))(*shapes)
    (path / "sum.jax").write_bytes(exported.serialize())
    (path / "sum.mlir").write_text(exported.mlir_module())
    static = "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }"
    (path / "static.mlir").write_text(static)
    for name, shape in {"x": (3, 4), "w": (4, 2), "batch": (5, 3, 4), "one": (1, 4)}.items():
        np.save(path / f"{name}.npy", np.ones(shape, "f4"))
    return path


def run(folder, capsys, command):
    """The exit status, standard output and standard error of a command in the folder."""
    words = [str(folder / word) if "." in word else word for word in command.split()]
    status = main(words)
    return status, *capsys.readouterr()


#: A command, and what it prints.
COMMANDS = {
    "run sum.jax x.npy w.npy": "result f32[]",
    "run sum.mlir x.npy": "result f32[]",
    "run sum.jax --shapes 2x4": "result f32[]",
    "grad sum.jax x.npy --argnums 0": "gradient0 f32[3,4]",
    "vmap sum.jax batch.npy --in-axes 0,none": "result f32[5]",
    "vmap sum.mlir --shapes 3x4,- --in-axes 0,none --size 3": "result f32[3]",
    "check sum.jax x.npy --no-gradients": "cross_check of main: ok",
    "show sum.jax --shapes 3x4,4x2": "f32[3,4]",
    "cost sum.mlir --shapes 3x4 --no-xla": "dot_general",
    "convert sum.jax --shapes 3x4 --to stablehlo": "tensor<3x4xf32>",
}


@pytest.mark.parametrize("command", COMMANDS)
def test_sizes_come_from_arrays_or_from_shapes(folder, capsys, command):
    status, out, err = run(folder, capsys, command)
    assert status == 0, err
    assert COMMANDS[command] in out


#: A command that cannot run, and what it says.
INVALID = {
    "show sum.jax": "has symbolic sizes, <lambda>(float32[b,4], float32[4,2]): give their values",
    "run sum.jax --shapes -": "the sizes of args[0], float32[b,4], are not known",
    "run sum.jax one.npy": "constraint b >= 2",
    "run sum.jax w.npy": "args[0] has shape f32[4,2], but the program takes float32[b,4]",
    "run sum.mlir --shapes 3x4,4x2,1": "3 arguments for 2 inputs",
    "run static.mlir --shapes 2": "--shapes is for programs with symbolic sizes",
}


@pytest.mark.parametrize("command", INVALID)
def test_sizes_that_are_missing_or_invalid(folder, capsys, command):
    status, _, err = run(folder, capsys, command)
    assert status == 2
    assert INVALID[command] in err


def test_a_list_of_shapes_that_is_invalid(folder, capsys):
    with pytest.raises(SystemExit):
        run(folder, capsys, "run sum.jax --shapes 3y4")
    assert "is not a list of shapes such as 3x4,4x2" in capsys.readouterr().err
