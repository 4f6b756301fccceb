"""Shardy's own passes, as provided by jaxlib, on programs in text form.

A failed check of a pass ends its process, and so does a pass in the wrong nesting. So they run
in a separate process, and `PASSES` states which of them run on functions.
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

# The process limits its own CPU time; this limit is for a process that sleeps.
_SECONDS = 3600.0
_HELPER = Helper(str(Path(__file__).with_name("shardy_process.py")))
_STEP = re.compile(r"\s*([\w-]+)\s*(?:\{([^{}]*)\}\s*)?(?:,|\Z)")
# The lines of a process that fails, most informative first.
_LAST_WORDS = re.compile("Check failed.*"), re.compile("LLVM ERROR.*")
_SYNTAX = "Pass names of passes separated by commas, each with its options: NAME{OPTION=VALUE ...}."
_REFUSED = (
    "The program is MLIR text in the dialects sdy, stablehlo, chlo and func: correct it at this "
    "place; sdy's specification lists the rules of meshes, shardings and operations."
)
_DEADLY = "No program should crash Shardy: correct it; if it is valid, report it to the project."
#: The values of an option that selects a strategy of propagation.
STRATEGIES = ("basic", "aggressive", "basic-then-aggressive")


class Pass(NamedTuple):
    """A pass or a pipeline of passes."""

    meaning: str  # what it does, in one line
    is_of_functions: bool = False  # whether it runs on each function instead of the module
    options: Mapping[str, bool | str] = MappingProxyType({})  # with their defaults


_DEBUGGING = {"debug-sharding-origins": False, "debug-propagation-edge-sharding": False}
_PROPAGATION = {"keep-sharding-rules": False, "conservative-propagation": False}
_PROPAGATION |= {"module-dump-directory": "", **_DEBUGGING}
_BY_STRATEGY = {**_PROPAGATION, "propagation-strategy": "aggressive"}
_BY_PRIORITY = {**_BY_STRATEGY, "run-op-priority-propagation": True}
_WHOLLY = {"dedup-functions-fully": False}

#: The available passes, by name.
PASSES = {
    # Import.
    "sdy-import-pipeline": Pass("Prepares a program for propagation.", options=_WHOLLY),
    "sdy-lift-inlined-meshes": Pass("Names every mesh, and each mesh once."),
    "sdy-remove-size-one-axes": Pass("Removes axes of size one from shardings."),
    "sdy-propagate-sharding-from-func-to-call": Pass(
        "Copies shardings of function results to calls without shardings."
    ),
    "sdy-constant-or-scalar-splitter": Pass(
        "Gives every use of a constant or broadcast scalar its own copy."
    ),
    "sdy-explicit-gather-scatter-batching": Pass(
        "Makes batch dimensions of gathers and scatters explicit.", is_of_functions=True
    ),
    "sdy-manual-axes-cleanup": Pass(
        "Lists every manual axis in the shardings of manual computations, in order."
    ),
    "sdy-add-data-flow-edges": Pass("Adds a data-flow edge to every value that owns one."),
    "sdy-add-func-data-flow-edges": Pass("Adds edges to function arguments and call results."),
    "sdy-apply-sharding-constraints": Pass(
        "Copies closed constraints to the values that they constrain.", options=_DEBUGGING
    ),
    "sdy-sharding-group-import": Pass(
        "Merges sharding groups with common members, and checks them."
    ),
    "sdy-flatten-call-graph": Pass("Gives every call its own function."),
    "sdy-import-func-calls": Pass(
        "Turns calls into named computations.",
        options={"add-data-flow-edges-on-named-computations": True},
    ),
    "sdy-pre-order-funcs": Pass("Sorts functions, callers first."),
    "sdy-inline-meshes": Pass("Replaces mesh names in shardings with the meshes."),
    # Propagation.
    "sdy-propagation-pipeline": Pass("Import, propagation and export.", options=_WHOLLY),
    "sdy-populate-op-sharding-rules": Pass(
        "Writes the sharding rule of every operation.",
        is_of_functions=True,
        options={"conservative-propagation": False},
    ),
    "sdy-basic-propagate": Pass("Propagates shardings without conflicts.", options=_PROPAGATION),
    "sdy-aggressive-propagate": Pass("Propagates and resolves conflicts.", options=_BY_STRATEGY),
    "sdy-op-priority-propagate": Pass(
        "Propagates aggressively, through simple operations first.", options=_BY_PRIORITY
    ),
    "sdy-user-priority-propagate": Pass(
        "Propagates by user and operation priorities.", options=_BY_PRIORITY
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
        "Gives function results the shardings of the returned values."
    ),
    "sdy-unflatten-call-graph": Pass(
        "Merges functions that differ only in shardings.", options=_WHOLLY
    ),
    "sdy-insert-func-call-reshards": Pass(
        "Reshards if a call and its function are sharded differently."
    ),
    "sdy-constant-or-scalar-merger": Pass(
        "Merges equal constants with equal shardings.", is_of_functions=True
    ),
    "sdy-sink-data-flow-edges": Pass(
        "Removes edges and copies their shardings to the owners.",
        is_of_functions=True,
        options={
            "sink-debug-sharding-origins": False,
            "sink-debug-propagation-edge-sharding": False,
        },
    ),
    "sdy-sink-func-data-flow-edges": Pass(
        "Removes the edges of function arguments and calls.", is_of_functions=True
    ),
    "sdy-remove-propagation-debug-info": Pass("Removes the output of debugging options."),
    "sdy-remove-sharding-groups": Pass("Removes sharding groups."),
    "sdy-sharding-constraint-to-reshard": Pass(
        "Turns constraints into reshards.", is_of_functions=True
    ),
    "sdy-update-non-divisible-input-output-shardings": Pass(
        "Reduces argument and result shardings to axes that divide their dimensions."
    ),
    "sdy-remove-sub-axes-in-input-output-shardings": Pass(
        "Removes parts of axes from open dimensions of arguments and results."
    ),
    "sdy-close-shardings": Pass("Closes every dimension, and drops replicated axes."),
    "sdy-insert-explicit-reshards": Pass(
        "Reshards if the operands and results of an operation are incompatible.",
        is_of_functions=True,
        options={"enable-full-version": False},
    ),
    "sdy-reshard-to-collectives": Pass(
        "Turns reshards into collectives.",
        is_of_functions=True,
        options={"keep-redundant-reshards": False},
    ),
    "sdy-remove-all-gather-reduce-scatter-for-cmv1": Pass(
        "Removes gathers and scatters that XLA's collective matrix products contain.",
        is_of_functions=True,
    ),
    "sdy-resolve-permutation-factors": Pass(
        "Computes operations that move elements along a sharded dimension on shards.",
        options={"enable-halo-exchange": True},
    ),
    "sdy-pad-for-divisibility": Pass(
        "Pads dimensions that are not divisible by their shards.", is_of_functions=True
    ),
    "sdy-convert-global-to-local": Pass(
        "Creates the program of one device.",
        options={
            "per-dim-all-gather": False,
            "combine-multi-dimension-reduce-scatter": False,
            "enable-rgv3": False,
        },
    ),
    "sdy-drop-sharding-rules": Pass("Removes sharding rules.", is_of_functions=True),
    "sdy-drop-sharding-and-mesh": Pass("Removes shardings and meshes."),
    # MLIR's own passes.
    "canonicalize": Pass("Simplifies operations with their own patterns."),
    "cse": Pass("Computes equal values once."),
    "inline": Pass("Replaces calls with the bodies of functions."),
    "symbol-dce": Pass("Removes unused functions and meshes."),
}
#: Former names of passes.
RENAMED = {"sdy-constant-splitter": "sdy-constant-or-scalar-splitter"}


def shardy_pass(text: str, pipeline: str, *, with_places: bool = False) -> str:
    """Apply some of Shardy's passes to a program, and return it as printed by MLIR.

    Args:
        text: a module, as MLIR text.
        pipeline: passes of `PASSES` separated by commas, such as `"sdy-basic-propagate"` or
            `"sdy-op-priority-propagate{propagation-strategy=basic keep-sharding-rules=true}"`.
            If empty, the program is only read, verified and printed.
        with_places: whether the result has the location of each operation: its position in the
            text, or the location that the text states.

    Raises:
        AttributeValueError: unknown pass or option.
        ImportError_: the text is not a program, or a pass rejects it or crashes.
    """
    check_characters(text, partial(refused_at, _subject(pipeline), text, advice=_REFUSED))
    return _ask(pipeline, with_places, text)


def passes_of(pipeline: str) -> str:
    """Return the passes of a pipeline, with all their options, as printed by MLIR.

    Args:
        pipeline: see `shardy_pass`.
    """
    return _ask(pipeline, False)


def written_steps(pipeline: str) -> list[tuple[str, dict[str, str]]]:
    """Parse names of passes separated by commas, each with its options, without checking them.

    Raises:
        AttributeValueError: the text has another form.
    """
    steps, position = [], 0
    while position < len(pipeline.rstrip()):
        match = _STEP.match(pipeline, position)
        if match is None:
            problem = f"{pipeline[position:][:100].strip()!r} is not a pass with options"
            raise explain(AttributeValueError, "shardy_pass", problem, (), _SYNTAX)
        position, name = match.end(), RENAMED.get(match[1], match[1])
        options = [option.partition("=") for option in (match[2] or "").split()]
        steps.append((name, {key: value for key, _, value in options}))
    return steps


def steps_of(pipeline: str) -> list[tuple[str, dict[str, bool | str]]]:
    """Parse names of passes separated by commas, each with its options.

    Args:
        pipeline: see `shardy_pass`.

    Raises:
        AttributeValueError: unknown pass or option.
    """
    steps = []
    for name, options in written_steps(pipeline):
        if name not in PASSES:
            _refuse_name(name)
        steps.append((name, {key: _checked(name, key, value) for key, value in options.items()}))
    return steps


def with_options(name: str, options: Mapping[str, object]) -> str:
    """Return a pass with options, in the form that `shardy_pass` takes.

    Args:
        name: a name of `PASSES`.
        options: values by name, with `_` or `-` between words; `True` means `true`.
    """
    stated = (
        f"{key.replace('_', '-')}={str(value).lower() if isinstance(value, bool) else value}"
        for key, value in options.items()
    )
    return f"{name}{{{' '.join(stated)}}}" if options else name


def _subject(pipeline: str) -> str:
    return pipeline.strip() or "Shardy"


def _ask(pipeline: str, with_places: bool, *texts: str) -> str:
    """Return the reply of the process."""
    request = _mlir_pipeline(pipeline), with_places
    try:
        reply, blocks = _HELPER.ask(request, _SECONDS, *map(str.encode, texts))
    except HelperDied as death:
        problem = SLOW if death.is_slow else "its process has ended"
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
    problem = f"Shardy crashes on the program: {refusal.problem}"
    return explain(ImportError_, _subject(pipeline), problem, details, _DEADLY)


def _mlir_pipeline(pipeline: str) -> str:
    """Return MLIR's form of a pipeline, with each pass in its nesting."""
    steps = []
    for name, options in steps_of(pipeline):
        step = with_options(name, options)
        steps.append(f"func.func({step})" if PASSES[name].is_of_functions else step)
    return f"builtin.module({','.join(steps)})"


def _refuse_name(name: str) -> NoReturn:
    near = "".join(f"Did you mean {match}? " for match in get_close_matches(name, PASSES, 1, 0.8))
    advice = f"{near}The passes are {', '.join(PASSES)}."
    raise explain(AttributeValueError, "shardy_pass", f"unknown pass {name!r}", (), advice)


def _checked(name: str, key: str, value: str) -> bool | str:
    """Check an option, and return its value."""
    options = PASSES[name].options
    if key not in options:
        problem = f"unknown option {key!r}"
        advice = f"Its options are {', '.join(options)}." if options else "It has no options."
        raise explain(AttributeValueError, name, problem, (), advice)
    is_flag = isinstance(options[key], bool)
    allowed = ("true", "false") if is_flag else ()
    if key == "propagation-strategy":
        allowed = STRATEGIES
    if (allowed and value not in allowed) or not value:
        advice = f"Pass one of {', '.join(allowed)}." if allowed else "Pass a directory."
        problem = f"{key} cannot be {value!r}"
        raise explain(AttributeValueError, name, problem, (), advice)
    return value == "true" if is_flag else value
