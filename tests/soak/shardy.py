"""Search for differences between our sharding passes and Shardy's, on random programs.

The programs contain axes of size one, unreduced axes, maximal meshes, and tokens, also in calls.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass

from minixla.core.errors import MinixlaError
from minixla.engine.shardy import shardy_pass
from minixla.interop.sharding_passes import read_program
from minixla.sharding import run_pass
from tests.minixla.sharding.random_programs import Body, RandomProgram, type_of
from tests.oracles.shardy_text import normal_form

FEATURES = "size one", "unreduced", "maximal", "tokens"
#: Passes for any program. The passes of the export pipeline run on propagated programs.
PASSES = [
    "symbol-dce",
    "sdy-lift-inlined-meshes",
    "sdy-remove-size-one-axes",
    "sdy-propagate-sharding-from-func-to-call",
    "sdy-constant-or-scalar-splitter",
    "sdy-manual-axes-cleanup",
    "sdy-add-data-flow-edges",
    "sdy-add-func-data-flow-edges",
    "sdy-apply-sharding-constraints",
    "sdy-sharding-group-import",
    "sdy-flatten-call-graph",
    "sdy-pre-order-funcs",
    "sdy-import-pipeline",
    "sdy-import-pipeline,sdy-basic-propagate",
    "sdy-import-pipeline,sdy-aggressive-propagate",
    "sdy-propagate-to-func-results",
    "sdy-update-non-divisible-input-output-shardings",
    "sdy-remove-sub-axes-in-input-output-shardings",
    "sdy-close-shardings",
    "sdy-drop-sharding-rules",
    "sdy-propagation-pipeline",
    "sdy-import-pipeline,sdy-user-priority-propagate",
    "sdy-import-pipeline,sdy-user-priority-propagate,sdy-export-pipeline",
]
_TOKEN = "!stablehlo.token"


def _maximal(body: Body) -> None:
    """Add a custom call on one device, with a result or without."""
    if body.depth:  # our texts order the side effects of loops by a token
        return
    x, sizes = body.operand()
    device = body.draw.randint(0, 1)
    said = f"sdy.sharding = #sdy.sharding_per_value<[<@device{device}, []>]>"
    call = f"stablehlo.custom_call @on_one({x}) {{has_side_effect = true, {said}}}"
    if body.draw.random() < 0.5:
        body.line(f"{call} : ({type_of(sizes)}) -> ()", (x,), {})
    else:
        name = body.program.name()
        tail = f"({type_of(sizes)}) -> {type_of(sizes)}"
        body.line(f"{name} = {call} : {tail}", (x,), {name: sizes})


def _token(body: Body) -> None:
    """Add a call of a function that takes and returns a token and an array of two dimensions."""
    if body.depth:
        return
    x = body.of_sizes((4, 8))
    token, name = body.program.name(), body.program.name()
    array = type_of((4, 8))
    body.line(f"{token} = stablehlo.create_token : {_TOKEN}", (), {token: ()})
    del body.values[token], body.unread[token]
    types = f"({array}, {_TOKEN}) -> ({array}, {_TOKEN})"
    text = f"{name}:2 = call @with_token({x}, {token}) : {types}"
    body.line(text, (x, token), {f"{name}#0": (4, 8)})


def _loop_of_tokens(body: Body) -> None:
    """Add a loop that carries a token."""
    if body.depth:
        return
    x, sizes = body.operand()
    names = [body.program.name() for _ in range(9)]
    token, zero, name, one, inner, count, limit, flag, step = names
    types = f"{type_of(sizes)}, {_TOKEN}, tensor<i32>"
    body.line(f"{token} = stablehlo.create_token : {_TOKEN}", (), {token: ()})
    body.line(f"{zero} = stablehlo.constant dense<0> : tensor<i32>", (), {zero: ()})
    for each in (token, zero):
        del body.values[each], body.unread[each]
    made = body.program.name()
    body.line(
        f"""{name}:3 = stablehlo.while({one} = {x}, {inner} = {token}, {count} = {zero}) : {types}
  cond {{
    {limit} = stablehlo.constant dense<3> : tensor<i32>
    {flag} = stablehlo.compare LT, {count}, {limit} : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return {flag} : tensor<i1>
  }} do {{
    {made} = stablehlo.negate {one} : {type_of(sizes)}
    {step} = stablehlo.add {count}, {count} : tensor<i32>
    stablehlo.return {made}, {inner}, {step} : {types}
  }}""",
        (x, token, zero),
        {f"{name}#0": sizes},
    )


_MAKERS = {"maximal": [_maximal], "tokens": [_token, _loop_of_tokens]}
_HEADERS = {
    "maximal": """sdy.mesh @device0 = <[], device_ids=[0]>
sdy.mesh @device1 = <[], device_ids=[1]>
""",
    "tokens": f"""func.func private @with_token(%x: tensor<4x8xf32>, %t: {_TOKEN})
    -> (tensor<4x8xf32>, {_TOKEN}) {{
  %0 = stablehlo.negate %x : tensor<4x8xf32>
  return %0, %t : tensor<4x8xf32>, {_TOKEN}
}}
""",
}


def program(seed: int) -> str:
    """Return the text of a random program with some of the features."""
    draw = random.Random(f"features {seed}")
    features = draw.sample(FEATURES, draw.randint(1, len(FEATURES)))
    makers = [maker for each in features for maker in _MAKERS.get(each, ())]
    steps, placed = draw.randint(1, 10), draw.choice((0.12, 0.6))
    made = RandomProgram(
        seed, steps, has_named=False, placed=placed, features=features, makers=makers
    )
    return "".join(_HEADERS.get(each, "") for each in features) + made.text


@dataclass
class Case:
    """A pass and a program.

    Attributes:
        name: the pass, or several.
        text: the program.
    """

    name: str
    text: str

    def run(self) -> str | None:
        """Describe the disagreement; None if both results are equal and can be read again."""
        try:
            text = str(read_program(self.text))
            theirs = shardy_pass(text, self.name)
        except MinixlaError:  # Shardy rejects programs that ours accepts, or crashes on them
            return None
        if self._is_known(text, theirs):
            return None
        try:
            own = run_pass(self.name, text)
        except MinixlaError as error:
            return f"{self.name}: refused: {str(error).splitlines()[0]}"
        except Exception as error:
            return f"{self.name}: {type(error).__name__}: {error}"
        try:
            run_pass("symbol-dce", own)
            mine = _normal(own)
        except MinixlaError as error:
            return f"{self.name}: the text cannot be read: {str(error).splitlines()[0]}"
        pairs = zip(mine.splitlines(), _normal(theirs).splitlines(), strict=False)
        wrong = next(((x.strip(), y.strip()) for x, y in pairs if x != y), None)
        return wrong and f"{self.name}: {wrong[0]}\n  Shardy: {wrong[1]}"

    def _is_known(self, text: str, theirs: str) -> bool:
        """Whether Shardy does something that our passes lack.

        It converts replicated or sharded values to unreduced ones, and sums results that stay
        unreduced along some axes.
        """
        if "_to_unreduced" in theirs or re.search(r"sdy\.all_reduce .*unreduced=", theirs):
            return True
        return "unreduced" in text and "dot_general" in text and "sdy.all_reduce" in theirs

    def shrunk(self) -> Case:
        """Return a smaller program on which the pass disagrees in the same way."""
        found, kind = self, _kind(self.run())
        is_smaller = True
        while is_smaller:
            is_smaller = False
            for text in _smaller(found.text):
                case = Case(self.name, text)
                if _kind(case.run()) == kind:
                    found, is_smaller = case, True
                    break
        return found

    def __str__(self) -> str:
        return f"{self.name}\n{self.text}"


def _normal(text: str) -> str:
    """Normalize a text; tokens that depend on nothing are written in one way."""
    return normal_form(text).replace("stablehlo.create_token :", "stablehlo.after_all  :")


def _kind(found: str | None) -> str | None:
    """Return the type of a disagreement between two engines."""
    return None if found is None else " ".join(re.findall(r"refused|cannot be read|Shardy", found))


def _smaller(text: str) -> Iterator[str]:
    """Yield texts without one part: a line, a result, the sharding of a value."""
    lines = text.splitlines(keepends=True)
    for size in (8, 4, 2, 1):
        for at in range(len(lines) - size, -1, -1):
            yield "".join(lines[:at] + lines[at + size :])
    for match in re.finditer(r" \{sdy\.sharding = [^\n]*?>(?:\]>)?\}", text):
        yield text[: match.start()] + text[match.end() :]
    for match in re.finditer(r'"\w", |, "\w"|"\w"', text):
        yield text[: match.start()] + text[match.end() :]


def cases(seed: int) -> Iterator[Case]:
    """Yield all passes on one random program after another; seeds share no program."""
    for number in itertools.count(seed << 20):
        text = program(number)
        for name in PASSES:
            yield Case(name, text)
