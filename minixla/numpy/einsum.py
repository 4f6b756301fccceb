"""einsum: sums of products named by letters, as a path of pairwise DotGenerals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Any

import minixla.numpy as mnp
import minixla_ops as ops
from minixla.core.errors import AttributeValueError, explain
from minixla.core.tracing import weak_type_of
from minixla.numpy import operands as parameters
from minixla.numpy.operands import common_type, kind_of, lifted, marked, operand_shape, widened
from minixla_ops.elementwise.operators import convert
from minixla_ops.programs.computations import sum_over

#: Which operands a step takes, which letters it sums over, and its own subscripts.
Step = tuple[tuple[int, ...], frozenset[str], str]


def einsum(
    subscripts: Any,
    /,
    *operands: Any,
    out: None = None,
    optimize: Any = "auto",
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Any:
    """The sum of products that `subscripts` names (numpy.einsum).

    Args:
        subscripts: such as "ij,jk->ik": a letter for each axis of each operand. Letters that the
            result lacks are summed over, repeated ones take the diagonal, ... stands for axes
            that broadcast. Or the first operand, followed by its axes as a list of integers, and
            so on, the result's axes last.
        operands: arrays.
        out: not supported.
        optimize: how the order of pairs is found; see opt_einsum.
        precision: see `minixla_ops.dot_general`.
        preferred_element_type: the type to accumulate in and return.

    Raises:
        AttributeValueError: the subscripts do not fit the operands.
    """
    parameters.refuse_out("einsum", out)
    text, arrays = _spelled_out(subscripts, operands)
    shapes = tuple([operand_shape(each, "einsum").dimensions for each in arrays])
    kind = common_type("einsum", *arrays)
    weak = all(map(weak_type_of, arrays)) and preferred_element_type is None
    wanted = parameters.requested_type(preferred_element_type, "einsum", kind)
    values = [lifted(convert(each, kind)) for each in arrays]
    for places, summed, step in _steps(text, shapes, _hashable(optimize)):
        inputs, output = step.split("->")
        taken = [values.pop(place) for place in places]

        if len(taken) == 1:
            x, name = _without_repeats(taken[0], inputs)
            x, name = _summed(x, name, set(name) - set(output))
            values.append(_arranged(x, name, output))
        else:
            values.append(_pair(taken, inputs.split(","), output, summed, precision, wanted))
    return marked(lifted(convert(values[0], wanted)), weak)


def _spelled_out(subscripts: Any, operands: Sequence[Any]) -> tuple[str, Sequence[Any]]:
    if not operands:
        given = [f"subscripts {subscripts!r}"[:200]]
        advice = "Give the operands behind the subscripts."
        raise explain(AttributeValueError, "einsum", "there are no operands", given, advice)
    if isinstance(subscripts, str):
        return subscripts, operands
    # Late, for it takes some 30 ms to import.
    from opt_einsum.parser import convert_interleaved_input

    try:
        text, arrays = convert_interleaved_input([subscripts, *operands])
    except (KeyError, TypeError) as error:
        problem = (
            "the subscripts are no text, and not what stands between operands and lists of axes"
        )
        given = [f"subscripts of type {type(subscripts).__name__}", str(error)]
        advice = (
            'Give "ij,jk->ik" and the operands, or each operand followed by a list of integers.'
        )
        raise explain(AttributeValueError, "einsum", problem, given, advice) from error
    return text, list(arrays)


def _hashable(optimize: Any) -> Any:
    if isinstance(optimize, list):
        return tuple([tuple(each) if isinstance(each, list) else each for each in optimize])
    return optimize


@lru_cache(maxsize=1024)
def _steps(text: str, shapes: tuple[tuple[int, ...], ...], optimize: Any) -> tuple[Step, ...]:
    """The steps in which a product is computed, each of one operand or two."""
    # Late, for it takes some 30 ms to import.
    from opt_einsum import contract_path

    optimize = _path(optimize, len(shapes))
    how: Any = {
        "shapes": True,
        "optimize": "optimal" if optimize is True else optimize,
        "einsum_call": True,
    }
    try:
        _, found = contract_path(text, *shapes, **how)
    except (ValueError, KeyError, TypeError, IndexError) as error:
        problem = "the subscripts do not fit the operands"
        operands = [f"operand {i} has shape {each}" for i, each in enumerate(shapes)]
        given = [f"subscripts {text!r}", *operands, str(error)]
        advice = "Give a letter for each axis; axes of one letter must be equal in size, or 1."
        raise explain(AttributeValueError, "einsum", problem, given, advice) from error
    steps = tuple([(tuple(step[0]), frozenset(step[1]), step[2]) for step in found])  # type: ignore[misc]  # a list, as einsum_call is set
    if any(len(step[0]) > 2 for step in steps):
        problem = "the path takes three operands or more at once"
        advice = "Give a path of pairs."
        raise explain(AttributeValueError, "einsum", problem, [f"optimize = {optimize}"], advice)
    return steps


def _path(optimize: Any, count: int) -> Any:
    """What opt_einsum calls a path for `count` operands."""
    if optimize is False:
        return [(0, 1)] * (count - 1) or [(0,)]
    return "optimal" if optimize is True else optimize


def einsum_path(
    subscripts: Any, /, *operands: Any, optimize: Any = "auto"
) -> tuple[Collection[tuple[int, ...]], Any]:
    """The order in which `einsum` takes the operands, and a description of its cost."""
    # Late, for it takes some 30 ms to import.
    from opt_einsum import contract_path

    text, arrays = _spelled_out(subscripts, operands)
    shapes = [operand_shape(each, "einsum_path").dimensions for each in arrays]
    if optimize is False:
        optimize = [(0, 1)] * (len(shapes) - 1)
    return contract_path(
        text, *shapes, shapes=True, optimize="optimal" if optimize is True else optimize
    )


def _summed(x: Any, names: str, dropped: Collection[str]) -> tuple[Any, str]:
    """`x` summed over some of its names."""
    places = [at for at, name in enumerate(names) if name in dropped]
    if not places:
        return x, names
    total = convert(sum_over(convert(x, widened(kind_of(x))), places), kind_of(x))
    return total, "".join([name for name in names if name not in dropped])


def _without_repeats(x: Any, names: str) -> tuple[Any, str]:
    """`x` with the diagonal taken of axes that have one name."""
    for name, count in Counter(names).items():
        for _ in range(count - 1):
            first, second = [at for at, each in enumerate(names) if each == name][:2]
            x = mnp.diagonal(x, 0, first, second)
            names = "".join([each for at, each in enumerate(names) if at not in (first, second)])
            names += name
    return x, names


def _arranged(x: Any, names: str, output: str) -> Any:
    return mnp.transpose(x, [names.index(name) for name in output])


def _stretched_away(x: Any, names: str, sizes: dict[str, int]) -> tuple[Any, str]:
    """`x` without axes of size 1 that the other operand has in full."""
    kept = [at for at, name in enumerate(names) if x.shape[at] != 1 or sizes.get(name, 1) == 1]
    if len(kept) == len(names):
        return x, names
    return mnp.reshape(x, [x.shape[at] for at in kept]), "".join([names[at] for at in kept])


def _pair(
    operands: Sequence[Any], names: Any, output: str, summed: Any, precision: Any, wanted: Any
) -> Any:
    (lhs, lhs_names), (rhs, rhs_names) = map(_without_repeats, operands, names)
    lhs_sizes = dict(zip(lhs_names, lhs.shape, strict=True))
    rhs_sizes = dict(zip(rhs_names, rhs.shape, strict=True))
    lhs, lhs_names = _stretched_away(lhs, lhs_names, rhs_sizes)
    rhs, rhs_names = _stretched_away(rhs, rhs_names, lhs_sizes)
    lhs, lhs_names = _summed(lhs, lhs_names, summed - set(rhs_names))
    rhs, rhs_names = _summed(rhs, rhs_names, summed - set(lhs_names))
    contracting = [name for name in lhs_names if name in summed]
    batch = [name for name in output if name in lhs_names and name in rhs_names]
    taken = {*contracting, *batch}
    free = ["".join([n for n in each if n not in taken]) for each in (lhs_names, rhs_names)]
    if "".join(batch) + free[1] + free[0] == output:
        # In the other order the result needs no transposition.
        lhs, rhs, lhs_names, rhs_names, free = rhs, lhs, rhs_names, lhs_names, free[::-1]
    numbers = [
        tuple([each.index(name) for name in chosen])
        for chosen in (contracting, batch)
        for each in (lhs_names, rhs_names)
    ]
    own = common_type("einsum", lhs, rhs)
    lhs, rhs, kind = convert(lhs, own), convert(rhs, own), None if wanted is own else wanted
    product = ops.dot_general(lhs, rhs, ops.DotDimensionNumbers(*numbers), precision, kind)
    return _arranged(product, "".join(batch) + "".join(free), output)
