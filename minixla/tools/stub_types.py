"""Types of parameters and results of public functions, by name, where the source says none."""

import re

# Tables have texts of names: what is said holds for each of them, with or without what they are of.

_HOMES = {
    "minixla.typing": "Array ArrayLike Axis DTypeLike KeyLike PyTree ShapeLike",
    "collections.abc": "Callable Collection Sequence",
    "numpy": "dtype ndarray",
}

_ARRAY = """
    A B C E M N T Z a a1 a2 alpha append ar ar1 ar2 args arr array arrs ary arys atol aweights b
    base batch_mean batch_var beta bias block_0 block_1 c concentration condition cov d data default
    df dfden dfnum discont dx e element epsilon f fill_value fp fweights grad_output group_sizes h
    ind indices init_value initial initial_state input input_offsets inputs k kernel key_0 key_1
    key_bits_array key_value_seq_lengths labels lam left lhs lhs_scale lhs_scales lmbda loc logits
    lower lu m mask max maxval mean min minval mu nan negative_slope neginf offset on_false on_true
    operand output output_offsets p padding_value period permutation phi posinf pred prepend
    prototype q query query_seq_lengths r rcond recv_sizes rhs rhs_scale rhs_scales right rtol s
    sample scale scatter_indices seed send_sizes sigma sorter source start start_indices step stop
    taus test_elements theta to_begin to_end tol u update upper v val vals value values varargs
    variance w weights where x x1 x2 xi xp y z
"""
# Where a parameter's name does not tell, the function's stands before it.
_PARAMETERS = {
    "Any": """
        all_gather.operand all_to_all.operand apply_along_axis.args array.object
        asarray.a block.arrays call.operands collective_broadcast.operand
        collective_permute.operand composite_call.operands
        einsum.operands einsum_path.operands from_dlpack.x fromfile.args fromiter.args
        get_dimension_size.operand infeed.shape iscomplexobj.x
        isrealobj.x isscalar.element optimization_barrier.operand
        parameter.shape piecewise.args
    """,
    "Array | ndarray | Sequence[Any]": "range",
    "Array | ndarray | Sequence[ArrayLike]": "arrays choices condlist filt seq_of_zeros tup",
    "ArrayLike": f"{_ARRAY} polygamma.n",
    "ArrayLike | Sequence[ArrayLike]": """
        all_reduce.operand cross_replica_sum.operand init_values inits operands outfeed.operand
        reduce_scatter.operand scan.inputs updates
    """,
    "ArrayLike | Sequence[ArrayLike] | str": "bins",
    "ArrayLike | Sequence[int]": "indices_or_sections repeats shift",
    "ArrayLike | Sequence[int] | slice": "obj",
    "ArrayLike | str": "interp.left interp.right",
    "ArrayLike | tuple[ArrayLike, ...]": "flatnonzero.fill_value nonzero.fill_value",
    "Axis": "axis",
    "DTypeLike": "dtype from_ int_type new_element_type preferred_element_type to",
    "KeyLike": "key keys",
    "None": "out",
    "ShapeLike": "new_shape reps shape shapes",
    "bool": "allow_pickle include_initial inplace keepdims promote_integers suppress_small wrap",
    "bool | ArrayLike | str": "polyfit.cov",
    "float": "correction ddof",
    "float | str": "ord",
    "int": "size",
    "int | Sequence[int] | Sequence[Sequence[int]]": "tensordot.axes",
    "str": "bitorder norm sep string",
}
_OF_MODULES = {"minixla.numpy.fft": {"Sequence[int]": "axes s", "int": "axis n"}}

# Results that are no arrays, or several.
_RESULTS = {
    "Any": """
        after_all all_gather all_reduce all_to_all atleast_1d atleast_2d atleast_3d batch_norm_grad
        batch_norm_training collective_broadcast collective_permute composite_call conditional
        create_token cross_replica_sum custom_call minixla_ops.eig minixla_ops.eigh finfo geqrf
        get_scaled_dot_general_config get_tuple_element gradient iinfo infeed key_dtype lu
        minixla_ops.map minixla_ops.qr optimization_barrier outfeed parameter qr recv recv_done
        reduce reduce_window scatter schur send send_done send_to_host send_with_tokens
        minixla_ops.sort minixla_ops.svd threefry2x32 top_k tuple unique_all unique_counts
        unique_inverse while_
    """,
    "Callable[..., Any]": "vectorize",
    "minixla.numpy.spectra.SVDResult": "numpy.linalg.svd",
    "tuple[Array, Array]": "divmod",
    "tuple[list[tuple[int, ...]], Any]": "einsum_path",
}

# Parameters with which a function gives something else than without them.
_FLAGS = {
    "compute_uv": "numpy.linalg.svd",
    "full cov": "polyfit",
    "retstep": "linspace",
    "return_index return_inverse return_counts": "unique",
    "return_indices": "intersect1d",
    "returned": "average",
    "sparse": "indices",
}
# ... and without which it gives something else.
_REQUIRED = {"x y": "where"}


def parameter_type(function: str, name: str, said: str, is_optional: bool) -> str:
    """The type of a parameter.

    Args:
        function: the function's full name.
        name: the parameter's.
        said: the type that the source says; empty where it says none.
        is_optional: whether it may be None.
    """
    if said and "KeyNumbers" not in said:
        return said
    of_module = _OF_MODULES.get(function.rpartition(".")[0], {})
    found = _said_of(name, of_module) or _said_of(f"{function}.{name}", _PARAMETERS) or "Any"
    is_optional = is_optional and found not in ("Any", "Axis", "None")
    return _full(f"{found} | None" if is_optional else found)


def result_type(function: str, said: str) -> str:
    """The type of a function's result; `said` as for parameters."""
    found = _said_of(function, _RESULTS)
    if found or not said or "KeyNumbers" in said:
        return _full(found or "Array")
    # What is in containers is an array, too.
    return re.sub(r"\btyping\.Any\b", _full("Array"), said) if said[-1:] == "]" else said


def changing_parameters(function: str) -> tuple[list[str], list[str]]:
    """Parameters with which a function does not give its usual result; and without which not."""
    return _said_of(function, _FLAGS).split(), _said_of(function, _REQUIRED).split()


def _said_of(full: str, table: dict[str, str]) -> str:
    """What a table says of a name, or of the longest part of it, from the end, that it has."""
    parts = full.split(".")
    ends = [".".join(parts[start:]) for start in range(len(parts))]
    found = [each for end in ends for each, names in table.items() if end in names.split()]
    return found[0] if found else ""


def _full(annotation: str) -> str:
    def named(match: re.Match[str]) -> str:
        home = _said_of(match[0], _HOMES)
        return f"{home}.{match[0]}" if home else match[0]

    return re.sub(r"[A-Za-z]\w*", named, annotation)
