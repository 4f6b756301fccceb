"""Types of parameters and results of public functions, by name, if the source states none."""

import re

# Tables list names: an entry applies to each name, with or without what the name belongs to.

_HOMES = {
    "minixla.typing": "Array ArrayLike DTypeLike",
    "collections.abc": "Sequence",
}

# A parameter's name follows the function's name if it is ambiguous.
_PARAMETERS = {
    "Any": """
        all_gather.operand all_to_all.operand collective_broadcast.operand
        collective_permute.operand get_dimension_size.operand
    """,
    "ArrayLike": """
        a b batch_mean batch_var block_0 block_1 c grad_output group_sizes input input_offsets key_0

        key_1 lhs lhs_scale lu mean mu offset operand output output_offsets p padding_value

        permutation polygamma.n q recv_sizes rhs rhs_scale scale send_sizes sigma start_indices taus
        v variance x
    """,
    "ArrayLike | Sequence[ArrayLike]": """
        all_reduce.operand cross_replica_sum.operand init_values inits operands outfeed.operand
        reduce_scatter.operand scan.inputs updates
    """,
    "DTypeLike": "new_element_type preferred_element_type",
}

# Results that are not a single array.
_RESULTS = {
    "Any": """
        after_all all_gather all_reduce all_to_all batch_norm_grad batch_norm_training
        collective_broadcast collective_permute composite_call conditional create_token

        cross_replica_sum custom_call eig eigh geqrf get_tuple_element infeed lu map
        optimization_barrier outfeed parameter qr recv recv_done reduce reduce_window scatter schur

        send send_done send_to_host send_with_tokens sort svd threefry2x32 top_k tuple while_
    """,
}


def parameter_type(function: str, name: str, said: str, is_optional: bool) -> str:
    """Return the type of a parameter.

    Args:
        function: the function's full name.
        name: the parameter's name.
        said: the type in the source; "" if the source states none.
        is_optional: whether it may be None.
    """
    if said:
        return said
    stated = _said_of(f"{function}.{name}", _PARAMETERS) or "Any"
    return _full(f"{stated} | None" if is_optional and stated != "Any" else stated)


def result_type(function: str, said: str) -> str:
    """Return the type of a function's result; `said` is as for parameters."""
    stated = _said_of(function, _RESULTS)
    if stated or not said:
        return _full(stated or "Array")
    # Elements of containers are arrays, too.
    return re.sub(r"\btyping\.Any\b", _full("Array"), said) if said[-1:] == "]" else said


def _said_of(full: str, table: dict[str, str]) -> str:
    """Return the table's type for a name, or for its longest suffix in the table."""
    parts = full.split(".")
    ends = [".".join(parts[start:]) for start in range(len(parts))]
    types = [
        type_name for end in ends for type_name, names in table.items() if end in names.split()
    ]
    return types[0] if types else ""


def _full(annotation: str) -> str:
    def named(match: re.Match[str]) -> str:
        home = _said_of(match[0], _HOMES)
        return f"{home}.{match[0]}" if home else match[0]

    return re.sub(r"[A-Za-z]\w*", named, annotation)
