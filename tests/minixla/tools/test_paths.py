"""Tables, pages and errors name the leaves of arguments and results by their paths."""

import pickle

import jax
import jax.export
import numpy as np
import pytest

import minixla as mx
from minixla.core.annotations import UNNAMED
from minixla.tools.drawing import dot_text

F32 = np.float32
PARAMETERS = {"down": np.ones((8, 4), F32), "up": np.ones((4, 8), F32)}
X = np.ones((4, 4), F32)
MESH = mx.sharding.Mesh(None, ("d",), (2,))
P = jax.sharding.PartitionSpec


def loss(p, x):
    """A loss in a dictionary, of a dictionary and an array."""
    return {"loss": (mx.numpy.tanh(x @ p["up"]) @ p["down"]).sum()}


PATHS = ["args[0]['down']", "args[0]['up']", "args[1]"]


def page(fun, tmp_path, suffix, **options):
    """The text of what `mx.explore` writes."""
    file = tmp_path / f"loss.{suffix}"
    mx.explore(fun, PARAMETERS, X, path=file, **options)
    return file.read_text().replace("&#x27;", "'")


#: What shows a function at arguments, as a text.
SHOWN = {
    "cost": lambda _: str(mx.cost(loss, PARAMETERS, X)),
    "cost, jitted": lambda _: str(mx.cost(mx.jit(loss), PARAMETERS, X)),
    "cost, imported": lambda _: str(mx.cost(imported(), PARAMETERS, X)),
    "page": lambda folder: page(loss, folder, "html"),
    "page, findings": lambda folder: page(loss, folder, "html", overlays=["findings"]),
    "explorer": lambda folder: page(mx.jit(loss), folder, "json"),
    "dot": lambda _: dot_text(mx.make_graph(loss)(PARAMETERS, X)),
    "notebook": lambda _: mx.make_graph(loss)(PARAMETERS, X)._repr_html_().replace("&#x27;", "'"),
    "shardings": lambda _: str(sharded().shardings(PARAMETERS, X)),
    "layouts": lambda _: str(mx.sharding.layouts(sharded().graph(PARAMETERS, X))),
    "cross_check": lambda _: str(mx.cross_check(loss, PARAMETERS, X)) + "".join(PATHS),
}


def sharded():
    """The loss, with its parameters sharded."""
    sides = ({"down": P("d"), "up": P(None, "d")}, None)
    return mx.jit(loss, mesh=MESH, in_shardings=sides)


def imported():
    """The loss as jax.export writes it, imported."""
    fun = jax.jit(lambda p, x: {"loss": (jax.numpy.tanh(x @ p["up"]) @ p["down"]).sum()})
    return mx.import_stablehlo(jax.export.export(fun)(PARAMETERS, X))


@pytest.mark.parametrize("name", SHOWN)
def test_leaves_are_named(name, tmp_path):
    text = SHOWN[name](tmp_path)
    for path in PATHS:
        assert path in text


def test_graphs_keep_paths():
    graph = mx.make_graph(loss)(PARAMETERS, X)
    for same in (graph.pruned(), graph.silent(), pickle.loads(pickle.dumps(graph))):
        assert (*same.paths.arguments, *same.paths.results) == (*PATHS, "result['loss']")
    assert list(imported().graph.paths.arguments) == PATHS
    assert graph == graph.with_paths(UNNAMED)


THREE = {"down": np.ones((3, 4), F32), "up": np.ones((4, 3), F32)}
TEXT = {"down": "text", "up": PARAMETERS["up"]}
RANK = ({"down": P(None, None, "d"), "up": P()}, P())
WHOLE = P()
JAX_MESH = jax.make_mesh((1,), ("d",))


def mapped(in_specs, out_specs=WHOLE, mesh=JAX_MESH):
    """The loss, mapped over a mesh."""
    return mx.shard_map(loss, mesh=mesh, in_specs=in_specs, out_specs=out_specs)


#: A call that raises an error, and what the error says.
ERRORS = {
    "cost": (lambda: mx.cost(loss, TEXT, X), "cost: argument p['down'] of type str"),
    "cross_check": (
        lambda: mx.cross_check(loss, TEXT, X),
        "cross_check: args[0]['down'] of type str",
    ),
    "explore": (
        lambda: mx.explore(loss, TEXT, X, path="x.html"),
        "explore: argument p['down'] of type str",
    ),
    "shard_map": (lambda: mapped(P())(TEXT, X), "argument p['down'] of type str"),
    "in_shardings, pieces": (
        lambda: sharded().shardings(THREE, X),
        "dimension 0 of argument p['down'], of size 3, cannot be split into 2 equal pieces",
    ),
    "in_shardings, rank": (
        lambda: mx.jit(loss, mesh=MESH, in_shardings=RANK).shardings(PARAMETERS, X),
        "for argument p['down']",
    ),
    "in_shardings, axis": (
        lambda: mx.jit(loss, mesh=MESH, in_shardings=({"down": P("q"), "up": P()}, P())),
        "for in_shardings[0]['down']",
    ),
    "out_shardings, rank": (
        lambda: mx.jit(loss, mesh=MESH, out_shardings={"loss": P("d")}).shardings(PARAMETERS, X),
        "for the result['loss']",
    ),
    "in_specs, rank": (lambda: mapped(RANK)(PARAMETERS, X), "for argument p['down']"),
    "in_specs, pieces": (
        lambda: mx.make_graph(mapped(({"down": P("d"), "up": P()}, P()), mesh=MESH))(THREE, X),
        "dimension 0 of argument p['down'], of size 3",
    ),
    "out_specs, rank": (
        lambda: mapped(P(), {"loss": P("d")})(PARAMETERS, X),
        "for the result['loss']",
    ),
    "constrain": (
        lambda: mx.sharding.constrain(PARAMETERS, RANK[0], mesh=MESH),
        "for x['down']",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_name_the_leaf(name):
    call, phrase = ERRORS[name]
    with pytest.raises(mx.MinixlaError) as caught:
        call()
    assert phrase in str(caught.value)
