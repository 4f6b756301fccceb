"""run_pass: Shardy's passes on texts and graphs."""

from difflib import get_close_matches
from inspect import signature
from typing import Any, Literal, NoReturn, TypeVar, get_args

from jax.extend.mlir import ir

from minixla.core.errors import AttributeValueError, explain
from minixla.core.graph import Graph
from minixla.core.tracebacks import api_boundary
from minixla.engine import shardy
from minixla.interop.module import Module
from minixla.interop.reading import opened, read_module
from minixla.sharding.passes import PASSES, RENAMED
from minixla.sharding.program import ORIGINAL_NAME, Program

#: Whose passes run: ours, or those of Shardy that jaxlib holds.
Engine = Literal["native", "shardy"]
Given = TypeVar("Given", str, Graph)
_SUBJECT = "run_pass"


@api_boundary
def run_pass(name: str, program: Given, *, engine: Engine = "native", **options: Any) -> Given:
    """A program after one of Shardy's passes.

    Args:
        name: the pass, by Shardy's name: `sdy-add-data-flow-edges`, ..., `sdy-import-pipeline`;
            docs/sharding.md lists them. `sdy-constant-splitter` is what
            `sdy-constant-or-scalar-splitter` was called.
        program: a module as MLIR's text, or a graph, which is function `main`.
        engine: `native` runs ours; `shardy` those of Shardy that jaxlib holds, in a process of
            their own.
        options: the pass's, with `_` between words. `specification=True` has our passes do as
            Shardy first specified them where that has changed since.

    Returns:
        The module after the pass as text, or function `main` as a graph.

    Raises:
        AttributeValueError: there is no such pass, engine or option.
        ImportError_: the text is no program.
        ShardingError: the program breaks a rule of the pass.
    """
    if engine not in get_args(Engine):
        problem, advice = f"there is no engine {engine!r}", "Give native or shardy."
        raise explain(AttributeValueError, _SUBJECT, problem, (), advice)
    if engine == "shardy":
        pipeline = shardy.with_options(name, options)
        if isinstance(program, Graph):
            text = str(Program.of_graph(program))
            return read_program(shardy.shardy_pass(text, pipeline)).graph()
        return shardy.shardy_pass(program, pipeline)
    run = PASSES.get(RENAMED.get(name, name))
    if run is None:
        _refuse_name(name)
    known = [each for each in signature(run).parameters if each != "program"]
    for option in options:
        if option not in known:
            problem = f"{name} has no option {option!r}"
            advice = f"Its options are {', '.join(known)}." if known else "It has no options."
            raise explain(AttributeValueError, _SUBJECT, problem, (), advice)
    is_graph = isinstance(program, Graph)
    changed = Program.of_graph(program) if is_graph else read_program(program)
    run(changed, **options)
    return changed.graph() if is_graph else str(changed)


def _refuse_name(name: str) -> NoReturn:
    near = "".join(f"Did you mean {each}? " for each in get_close_matches(name, PASSES, 1, 0.6))
    is_shardys = name in shardy.PASSES
    where = 'It is one of Shardy\'s: give engine="shardy". ' if is_shardys else near
    advice = f"{where}There are {', '.join(PASSES)}."
    raise explain(AttributeValueError, _SUBJECT, f"there is no pass {name!r}", (), advice)


def read_program(source: Any) -> Program:
    """A module as a program that passes change: what `import_stablehlo` takes, with all functions.

    Raises:
        ImportError_: it is no module.
    """
    found, _ = opened(source)
    module = _Written(read_module(found.module), None, found.constants, keeps_shardings=True)
    graphs = module.translated()
    shown = {name: module.functions[name].attributes for name in module.functions}
    public = [name for name, each in shown.items() if _visibility(each) != "private"]
    program = Program.of_graphs({name: graphs[name] for name in module.functions}, public)
    assert module.shardings is not None
    program.meshes = dict(module.shardings.meshes)
    for name, each in shown.items():
        if ORIGINAL_NAME in each:
            program.functions[name].original_name = ir.StringAttr(each[ORIGINAL_NAME]).value
    return program


class _Written(Module):
    """A module whose operations are translated one by one, as they are written."""

    recognises = False
    sharing = "stablehlo.case", "stablehlo.if"


def _visibility(attributes: Any) -> str:
    given = attributes.get("sym_visibility", None)
    return "public" if given is None else ir.StringAttr(given).value
