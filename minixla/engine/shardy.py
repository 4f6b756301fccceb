"""Shardy's own passes, as jaxlib has them, over programs that are texts.

A check of a pass that fails ends its process, and so does a pass in the wrong nesting. So they run
in a process of their own, and `PASSES` says which of them go over functions.
"""

import re
from collections.abc import Mapping
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, NoReturn

from minixla.core.errors import AttributeValueError, ImportError_, explain
from minixla.engine.forks import SLOW
from minixla.engine.readers import Refusal
from minixla.engine.subprocesses import Helper, HelperDied
from minixla.engine.text_positions import check_characters, located, refused_at

# The process limits its own time; this is for one that sleeps.
_SECONDS = 3600.0
_HELPER = Helper(str(Path(__file__).with_name("shardy_process.py")))
_STEP = re.compile(r"\s*([\w-]+)\s*(?:\{([^{}]*)\}\s*)?(?:,|\Z)")
# What a process writes that gives up, the telling words first.
_LAST_WORDS = re.compile("Check failed.*"), re.compile("LLVM ERROR.*")
_SYNTAX = "Give names of passes between commas, each with its options: NAME{OPTION=VALUE ...}."
_REFUSED = (
    "The program is MLIR's text in the dialects sdy, stablehlo, chlo and func: correct what stands "
    "there; sdy's specification lists the rules of meshes, shardings and operations."
)
_DEADLY = "No program may do that to Shardy: correct it; if it is right, report it to the project."
#: Of an option that chooses between strategies of propagation.
STRATEGIES = ("basic", "aggressive", "basic-then-aggressive")


class Pass(NamedTuple):
    """A pass or a pipeline of passes."""

    meaning: str  # what it does, in a line
    is_of_functions: bool = False  # whether it goes over functions one by one, not over a module
    options: Mapping[str, bool | str] = MappingProxyType({})  # with what they are if not given


_DEBUGGING = {"debug-sharding-origins": False, "debug-propagation-edge-sharding": False}
_PROPAGATION = {"keep-sharding-rules": False, "conservative-propagation": False}
_PROPAGATION |= {"module-dump-directory": "", **_DEBUGGING}
_BY_STRATEGY = {**_PROPAGATION, "propagation-strategy": "aggressive"}
_BY_PRIORITY = {**_BY_STRATEGY, "run-op-priority-propagation": True}
_WHOLLY = {"dedup-functions-fully": False}

#: What there is, by name.
PASSES = {
    # Import.
    "sdy-import-pipeline": Pass("Prepares a program for propagation.", options=_WHOLLY),
    "sdy-lift-inlined-meshes": Pass("Names every mesh, and each mesh once."),
    "sdy-remove-size-one-axes": Pass("Takes axes of size one out of shardings."),
    "sdy-propagate-sharding-from-func-to-call": Pass(
        "Copies shardings of functions' results to calls that have none."
    ),
    "sdy-constant-or-scalar-splitter": Pass(
        "Gives every use of a constant, and of a broadcast scalar, a copy of its own."
    ),
    "sdy-explicit-gather-scatter-batching": Pass(
        "Makes batch dimensions of gathers and scatters explicit.", is_of_functions=True
    ),
    "sdy-manual-axes-cleanup": Pass(
        "Mentions every manual axis in the shardings of manual computations, and sorts them."
    ),
    "sdy-add-data-flow-edges": Pass("Puts an edge on every value that owns one."),
    "sdy-add-func-data-flow-edges": Pass("Puts edges on functions' arguments and calls' results."),
    "sdy-apply-sharding-constraints": Pass(
        "Copies closed constraints to what they constrain.", options=_DEBUGGING
    ),
    "sdy-sharding-group-import": Pass("Unites sharding groups with common members, and checks."),
    "sdy-flatten-call-graph": Pass("Gives every call a function of its own."),
    "sdy-import-func-calls": Pass(
        "Turns calls into named computations.",
        options={"add-data-flow-edges-on-named-computations": True},
    ),
    "sdy-pre-order-funcs": Pass("Sorts functions, callers first."),
    "sdy-inline-meshes": Pass("Writes meshes into shardings in place of their names."),
    # Propagation.
    "sdy-propagation-pipeline": Pass("Import, propagation and export.", options=_WHOLLY),
    "sdy-populate-op-sharding-rules": Pass(
        "Writes the sharding rule of every operation.",
        is_of_functions=True,
        options={"conservative-propagation": False},
    ),
    "sdy-basic-propagate": Pass("Propagates where nothing conflicts.", options=_PROPAGATION),
    "sdy-aggressive-propagate": Pass("Propagates, and settles conflicts.", options=_BY_STRATEGY),
    "sdy-op-priority-propagate": Pass(
        "Propagates aggressively, through simple operations first.", options=_BY_PRIORITY
    ),
    "sdy-user-priority-propagate": Pass(
        "Propagates by priorities of the user's, and of operations.", options=_BY_PRIORITY
    ),
    # Export.
    "sdy-export-pipeline": Pass(
        "Makes a propagated program ready for partitioning.",
        options={
            "keep-sharding-rules": False,
            "avoid-export-for-partitioning": False,
            "avoid-reshards-on-calls": False,
            "enable-insert-explicit-collectives": False,
            "remove-all-gather-reduce-scatter-for-cmv1": False,
            "update-non-divisible-input-output-shardings": True,
            "dump-directory": "",
            "dump-sharding-origins": False,
            "dump-propagation-edges": False,
        },
    ),
    "sdy-export-named-computations": Pass("Turns named computations into calls of functions."),
    "sdy-propagate-to-func-results": Pass(
        "Gives functions' results the shardings of what is returned."
    ),
    "sdy-unflatten-call-graph": Pass(
        "Unites functions that are the same but for shardings.", options=_WHOLLY
    ),
    "sdy-insert-func-call-reshards": Pass(
        "Reshards where calls and functions are sharded differently."
    ),
    "sdy-constant-or-scalar-merger": Pass(
        "Unites equal constants of equal sharding.", is_of_functions=True
    ),
    "sdy-sink-data-flow-edges": Pass(
        "Takes edges away, whose shardings go to the owners.",
        is_of_functions=True,
        options={
            "sink-debug-sharding-origins": False,
            "sink-debug-propagation-edge-sharding": False,
        },
    ),
    "sdy-sink-func-data-flow-edges": Pass(
        "Takes edges of functions' arguments and calls away.", is_of_functions=True
    ),
    "sdy-remove-propagation-debug-info": Pass("Takes away what debugging options wrote."),
    "sdy-remove-sharding-groups": Pass("Takes sharding groups away."),
    "sdy-sharding-constraint-to-reshard": Pass(
        "Turns constraints into reshards.", is_of_functions=True
    ),
    "sdy-update-non-divisible-input-output-shardings": Pass(
        "Keeps of arguments' and results' shardings what divides their dimensions."
    ),
    "sdy-remove-sub-axes-in-input-output-shardings": Pass(
        "Takes parts of axes out of open dimensions of arguments and results."
    ),
    "sdy-close-shardings": Pass("Closes every dimension, and drops replicated axes."),
    "sdy-insert-explicit-reshards": Pass(
        "Reshards where an operation's operands and results are not sharded compatibly.",
        is_of_functions=True,
        options={"enable-full-version": False},
    ),
    "sdy-reshard-to-collectives": Pass(
        "Turns reshards into collectives.",
        is_of_functions=True,
        options={"keep-redundant-reshards": False},
    ),
    "sdy-remove-all-gather-reduce-scatter-for-cmv1": Pass(
        "Takes gathers and scatters away that XLA's collective matrix products contain.",
        is_of_functions=True,
    ),
    "sdy-resolve-permutation-factors": Pass(
        "Computes on shards what moves elements along a sharded dimension.",
        options={"enable-halo-exchange": True},
    ),
    "sdy-pad-for-divisibility": Pass(
        "Pads dimensions that their shards do not divide.", is_of_functions=True
    ),
    "sdy-convert-global-to-local": Pass(
        "Makes the program of one device.",
        options={
            "per-dim-all-gather": False,
            "combine-multi-dimension-reduce-scatter": False,
            "enable-rgv3": False,
        },
    ),
    "sdy-drop-sharding-rules": Pass("Takes sharding rules away.", is_of_functions=True),
    "sdy-drop-sharding-and-mesh": Pass("Takes shardings and meshes away."),
    # Of MLIR.
    "canonicalize": Pass("Simplifies operations by their own patterns."),
    "cse": Pass("Computes equal values once."),
    "inline": Pass("Puts functions in place of their calls."),
    "symbol-dce": Pass("Takes functions and meshes away that nothing names."),
}
#: What passes were called before.
RENAMED = {"sdy-constant-splitter": "sdy-constant-or-scalar-splitter"}


def shardy_pass(text: str, pipeline: str, *, with_places: bool = False) -> str:
    """A program after some of Shardy's passes, as MLIR prints it.

    Args:
        text: a module, as MLIR's text.
        pipeline: passes of `PASSES` between commas, such as `"sdy-basic-propagate"` or
            `"sdy-op-priority-propagate{propagation-strategy=basic keep-sharding-rules=true}"`.
            With none the program is read, verified and printed.
        with_places: whether the result says where each operation stands in the text, or where the
            text says that it stands.

    Raises:
        AttributeValueError: there is no such pass, or it has no such option.
        ImportError_: the text is no program, or a pass refuses it, or dies of it.
    """
    check_characters(text, partial(refused_at, _subject(pipeline), text, advice=_REFUSED))
    return _ask(pipeline, with_places, text)


def passes_of(pipeline: str) -> str:
    """The passes of a pipeline, with all their options, as MLIR prints it.

    Args:
        pipeline: see `shardy_pass`.
    """
    return _ask(pipeline, False)


def written_steps(pipeline: str) -> list[tuple[str, dict[str, str]]]:
    """Names of passes between commas, each with its options, as they are written.

    Raises:
        AttributeValueError: something stands there that is neither.
    """
    steps, position = [], 0
    while position < len(pipeline.rstrip()):
        match = _STEP.match(pipeline, position)
        if match is None:
            problem = f"{pipeline[position:][:100].strip()!r} is no pass with options"
            raise explain(AttributeValueError, "shardy_pass", problem, (), _SYNTAX)
        position, name = match.end(), RENAMED.get(match[1], match[1])
        options = [option.partition("=") for option in (match[2] or "").split()]
        steps.append((name, {key: value for key, _, value in options}))
    return steps


def steps_of(pipeline: str) -> list[tuple[str, dict[str, bool | str]]]:
    """Names of passes between commas, each with its options.

    Args:
        pipeline: see `shardy_pass`.

    Raises:
        AttributeValueError: there is no such pass, or it has no such option.
    """
    steps = []
    for name, options in written_steps(pipeline):
        if name not in PASSES:
            _refuse_name(name)
        steps.append((name, {key: _checked(name, key, value) for key, value in options.items()}))
    return steps


def with_options(name: str, options: Mapping[str, object]) -> str:
    """A pass with options, as `shardy_pass` takes it.

    Args:
        name: a name of `PASSES`.
        options: by name, with `_` or `-` between words; `True` stands for `true`.
    """
    stated = (
        f"{key.replace('_', '-')}={str(value).lower() if isinstance(value, bool) else value}"
        for key, value in options.items()
    )
    return f"{name}{{{' '.join(stated)}}}" if options else name


def _subject(pipeline: str) -> str:
    return pipeline.strip() or "Shardy"


def _ask(pipeline: str, with_places: bool, *texts: str) -> str:
    """What the process replies."""
    request = _mlir_pipeline(pipeline), with_places
    try:
        reply, blocks = _HELPER.ask(request, _SECONDS, *map(str.encode, texts))
    except HelperDied as death:
        problem = SLOW if death.is_slow else "its process is gone"
        reply, blocks = {"problem": problem, "died": True, "said": str(death)}, []
    if not reply:
        return blocks[0].tobytes().decode()
    refusal = Refusal(**reply)
    if refusal.died:
        raise _died(pipeline, refusal)
    raise located(_subject(pipeline), refusal.place, refusal.problem, (), _REFUSED, *texts)


def _died(pipeline: str, refusal: Refusal) -> ImportError_:
    match = next(filter(None, (pattern.search(refusal.said) for pattern in _LAST_WORDS)), None)
    details = [match[0][:500]] if match else refusal.said.splitlines()[-1:]
    problem = f"Shardy dies of the program: {refusal.problem}"
    return explain(ImportError_, _subject(pipeline), problem, details, _DEADLY)


def _mlir_pipeline(pipeline: str) -> str:
    """What MLIR calls a pipeline, with each pass in its nesting."""
    steps = []
    for name, options in steps_of(pipeline):
        step = with_options(name, options)
        steps.append(f"func.func({step})" if PASSES[name].is_of_functions else step)
    return f"builtin.module({','.join(steps)})"


def _refuse_name(name: str) -> NoReturn:
    near = "".join(f"Did you mean {match}? " for match in get_close_matches(name, PASSES, 1, 0.8))
    advice = f"{near}There are {', '.join(PASSES)}."
    raise explain(AttributeValueError, "shardy_pass", f"there is no pass {name!r}", (), advice)


def _checked(name: str, key: str, value: str) -> bool | str:
    """The value of an option, after a look at it."""
    options = PASSES[name].options
    if key not in options:
        problem = f"there is no option {key!r}"
        advice = f"Its options are {', '.join(options)}." if options else "It has no options."
        raise explain(AttributeValueError, name, problem, (), advice)
    is_flag = isinstance(options[key], bool)
    allowed = ("true", "false") if is_flag else ()
    if key == "propagation-strategy":
        allowed = STRATEGIES
    if (allowed and value not in allowed) or not value:
        advice = f"Give one of {', '.join(allowed)}." if allowed else "Give a directory."
        problem = f"{key} cannot be {value!r}"
        raise explain(AttributeValueError, name, problem, (), advice)
    return value == "true" if is_flag else value
