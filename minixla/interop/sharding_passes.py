"""`run_pass`: Shardy's passes on texts and graphs."""

from collections.abc import Callable
from difflib import get_close_matches
from functools import partial
from inspect import signature
from typing import Any, Literal, TypeVar, get_args

from jax.extend.mlir import ir

from minixla.core.errors import AttributeValueError, check_arguments, explain
from minixla.core.graph import Graph
from minixla.core.tracebacks import api_boundary
from minixla.engine import shardy
from minixla.interop.module import Module
from minixla.interop.reading import opened, read_module
from minixla.sharding.passes import PASSES
from minixla.sharding.program import ORIGINAL_NAME, Program
from minixla.sharding.verification import verify

#: The passes that run: ours, or Shardy's in jaxlib.
Engine = Literal["native", "shardy"]
Given = TypeVar("Given", str, Graph)
_SUBJECT = "run_pass"


@api_boundary
def run_pass(name: str, program: Given, *, engine: Engine = "native", **options: Any) -> Given:
    """Run one or several of Shardy's passes on a program.

    Args:
        name: the pass, by Shardy's name: `sdy-add-data-flow-edges`, ..., `sdy-import-pipeline`;
            docs/shardy_passes.md lists them. Separate several by commas, each with its options as
            Shardy writes them: `sdy-import-pipeline{dedup-functions-fully=true},sdy-...`.
        program: a module as MLIR text, or a graph, which is function `main`.
        engine: `native` runs our passes; `shardy` runs Shardy's in jaxlib, in another process.
        options: options of a single pass, with `_` between words. `specification=True` makes our
            passes follow Shardy's first specification if it has changed since.

    Returns:
        The module after the pass as text, or function `main` as a graph.

    Raises:
        AttributeValueError: the pass, engine or option does not exist.
        ImportError_: the text is not a program, or Shardy's own pass rejects it.
        ShardingError: the program breaks a rule of one of our passes.

    Example:
        >>> mesh = mx.sharding.Mesh(None, "x", (2,))
        >>> f = lambda x: mx.sharding.constrain(x, jax.P("x"), mesh=mesh) + 1
        >>> graph = mx.make_graph(f)(np.float32([1, 2]))
        >>> mx.sharding.run_pass("sdy-apply-sharding-constraints", graph)
        <Graph main (f32[2]) -> (f32[2]), 3 instructions>
    """
    check_arguments(_SUBJECT, name=(name, isinstance(name, str), "a pass's name, as text"))
    if engine not in get_args(Engine):
        problem, advice = f"engine {engine!r} does not exist", "Pass native or shardy."
        raise explain(AttributeValueError, _SUBJECT, problem, (), advice)
    left: Any
    is_graph = isinstance(program, Graph)
    if engine == "shardy":
        text: Any = str(Program.of_graph(program)) if is_graph else program
        left = shardy.shardy_pass(text, shardy.with_options(name, options))
        left = read_program(left).graph() if is_graph else left
        return left
    steps = [_native(*step, **options) for step in shardy.written_steps(name)]
    changed = Program.of_graph(program) if is_graph else read_program(program)
    for step in steps:
        step(changed)
        verify(changed)
    left = changed.graph() if is_graph else str(changed)
    return left


def _native(name: str, written: dict[str, str], **options: Any) -> Callable[[Program], None]:
    """Return one of our passes with its options."""
    run = PASSES.get(name)
    if run is None:
        near = "".join(
            f"Did you mean {match}? " for match in get_close_matches(name, PASSES, 1, 0.6)
        )
        is_shardys = name in shardy.PASSES
        where = 'It is one of Shardy\'s: give engine="shardy". ' if is_shardys else near
        advice = f"{where}There are {', '.join(PASSES)}."
        raise explain(AttributeValueError, _SUBJECT, f"pass {name!r} does not exist", (), advice)
    for key, value in written.items():
        options[key.replace("-", "_")] = {"true": True, "false": False}.get(value, value)
    defaults = {key: parameter.default for key, parameter in signature(run).parameters.items()}
    defaults.pop("program")
    for option, value in options.items():
        if option not in defaults:
            problem = f"{name} has no option {option!r}"
            advice = f"Its options are {', '.join(defaults)}." if defaults else "It has no options."
            raise explain(AttributeValueError, _SUBJECT, problem, (), advice)
        if type(value) is not type(defaults[option]):
            problem = f"option {option!r} of {name} cannot be {value!r}"
            advice = f"The default is {defaults[option]!r}: give a value of the same type."
            raise explain(AttributeValueError, _SUBJECT, problem, (), advice)
    return partial(run, **options)


def read_program(source: Any) -> Program:
    """Return a module, anything that `import_stablehlo` takes, as a program that passes change.

    Raises:
        ImportError_: it is not a module.
    """
    found = opened(source).program
    module = _Written(read_module(found.module), None, found.constants, keeps_shardings=True)
    graphs = module.translated()
    module.lost.warn(_SUBJECT)
    attributes_of = {name: module.functions[name].attributes for name in module.functions}
    public = [
        name for name, attributes in attributes_of.items() if _visibility(attributes) != "private"
    ]
    program = Program.of_graphs({name: graphs[name] for name in module.functions}, public)
    assert module.shardings is not None
    program.meshes = dict(module.shardings.meshes)
    for name, attributes in attributes_of.items():
        original = attributes.get(ORIGINAL_NAME, None)
        if isinstance(original, ir.StringAttr):
            program.functions[name].original_name = original.value
    return program


class _Written(Module):
    """A module whose operations are translated one by one, as written."""

    recognises = False
    sharing = "stablehlo.case", "stablehlo.if"


def _visibility(attributes: Any) -> str:
    visibility = attributes.get("sym_visibility", None)
    return "public" if visibility is None else ir.StringAttr(visibility).value
