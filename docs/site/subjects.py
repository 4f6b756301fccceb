"""The subjects by which the reference groups the names of a namespace."""

from __future__ import annotations

#: For each namespace: the subject, source files whose names belong to it, and further names.
SUBJECTS: dict[str, list[tuple[str, str, str]]] = {
    "minixla": [
        ("Compilation", "jit evaluation", "disable_jit make_jaxpr clear_caches named_call"),
        (
            "Derivatives",
            "gradients jacobians custom_derivatives conversions checkpoint",
            "fwd_and_bwd",
        ),
        (
            "Batches and devices",
            "vmap pmap shard_map simulate layouts jax_meshes",
            "smap reshard P",
        ),
        ("Collectives", "named_axes", ""),
        ("Control flow", "control_flow sequences", ""),
        (
            "Checking and debugging",
            "cross_check gradient_check operation_check evaluators debug_nans debugging "
            "leak_checks",
            "",
        ),
        ("Import and export", "exporting from_jax importing", ""),
        ("Visualization and cost", "explorer cost_reports", ""),
        (
            "Custom operations",
            "building compatibility contexts decorated loading partial_shapes registration "
            "operation tracing",
            "",
        ),
        (
            "Graphs, shapes and types",
            "element_types graph shapes tracer",
            "ShapeDtypeStruct Array typeof ds float0 Ref empty_ref free_ref freeze new_ref "
            "Shard ad "
            "memory",
        ),
        ("Errors", "errors foreign_code", ""),
        ("Callbacks and transfers", "callbacks", "transfer_from_outfeed transfer_to_infeed"),
        (
            "Devices and processes of JAX",
            "api array xla_bridge sharding_impls environment_info",
            "Device",
        ),
        ("Settings of JAX", "config", ""),
    ],
    "minixla.numpy": [
        (
            "Array creation",
            "creation",
            "linspace logspace geomspace meshgrid mgrid ogrid indices frombuffer fromfunction "
            "fromstring from_dlpack fromfile fromiter copy eye identity tri diag diagflat vander",
        ),
        (
            "Array manipulation",
            "manipulation joining",
            "append block delete flip fliplr flipud pad resize roll rollaxis rot90 tile trim_zeros "
            "packbits unpackbits",
        ),
        (
            "Indexing",
            "taking",
            "c_ r_ s_ index_exp choose diag_indices diag_indices_from "  # language: names
            "diagonal fill_diagonal "
            "mask_indices place put put_along_axis ravel_multi_index take_along_axis tril "
            "tril_indices "
            "tril_indices_from triu triu_indices triu_indices_from unravel_index newaxis piecewise "
            "select where",
        ),
        ("Sorting, searching and sets", "sorting sets", "sort_complex count_nonzero argmax argmin"),
        ("Arithmetic", "arithmetic", "add multiply negative subtract i0 frexp ldexp spacing"),
        (
            "Bitwise operations",
            "",
            "bitwise_and bitwise_or bitwise_xor bitwise_count bitwise_invert bitwise_not invert "
            "bitwise_left_shift bitwise_right_shift left_shift right_shift",
        ),
        ("Exponentials and trigonometry", "exponentials inverses", "logaddexp logaddexp2 unwrap"),
        ("Rounding and complex numbers", "elementwise", "nan_to_num"),
        (
            "Logic and comparisons",
            "logic",
            "logical_and logical_or logical_xor allclose array_equal array_equiv isclose iscomplex "
            "iscomplexobj isneginf isposinf isreal isrealobj isscalar all any",
        ),
        (
            "Reductions and cumulative functions",
            "reductions cumulative",
            "maximum minimum apply_along_axis apply_over_axes ediff1d trapezoid",
        ),
        (
            "Statistics",
            "statistics distributions",
            "bincount corrcoef cov histogram_bin_edges",
        ),
        (
            "Products and linear algebra",
            "linear_algebra convolutions matrices",
            "cross inner kron matvec outer tensordot vdot vecdot vecmat einsum_path",
        ),
        (
            "Polynomials",
            "",
            "poly polyadd polyder polydiv polyfit polyint polymul polysub polyval roots",
        ),
        ("Window functions", "", "bartlett blackman hamming hanning kaiser"),
        ("Functions of functions", "ufuncs", "vectorize frompyfunc"),
        (
            "Data types",
            "dtypes",
            "dtype character complexfloating flexible floating generic inexact integer "
            "number object_ "
            "signedinteger unsignedinteger ComplexWarning",
        ),
        (
            "Files and text",
            "",
            "load save savez array_repr array_str get_printoptions set_printoptions "
            "printoptions iterable",
        ),
        ("Constants", "", "e euler_gamma inf nan pi"),
    ],
    "minixla.numpy.linalg": [
        ("Solving systems", "systems", ""),
        ("Eigenvalues and singular values", "spectra", ""),
        ("Norms and products", "linalg linear_algebra manipulation numpy", ""),
    ],
    "minixla.random": [
        ("Keys", "keys", ""),
        ("Draws", "", ""),
        ("Draws of JAX", "core", "ball"),
    ],
    "minixla.nn": [
        ("Activation functions", "activations exponentials", ""),
        ("Layers", "layers", ""),
        (
            "Losses and attention",
            "soft_functions",
            "scaled_dot_general get_scaled_dot_general_config",
        ),
    ],
    "minixla.ops": [
        ("Element-wise operations", "elementwise", "ResultAccuracy"),
        ("Constants, broadcasts and reshapes", "movement", ""),
        ("Reductions and windows", "folds", ""),
        ("Products and convolutions", "products", ""),
        ("Indexing and sorting", "indexing", ""),
        ("Control flow and calls", "control_flow programs helpers", ""),
        ("Linear algebra and Fourier transforms", "linear_algebra", ""),
        ("Random numbers", "random", ""),
        ("Collectives", "collectives", ""),
        ("Sizes known at run time", "dynamic_sizes", ""),
        ("Inputs, user code and transfers", "host", ""),
        ("Instructions of XLA's passes", "dump_only", ""),
    ],
    "minixla.lax": [
        ("Control flow", "control_flow sequences conditionals loops solves", ""),
        ("Collectives", "named_axes parallel", "with_sharding_constraint"),
        ("Indexing", "slicing", ""),
        (
            "Convolutions, products and windows",
            "convolution other windowed_reductions scaled_dot",
            "",
        ),
        ("Special functions", "special fft ann", ""),
    ],
    "minixla.scipy.special": [
        (
            "Gamma, beta and zeta functions",
            "gamma_functions zeta_functions",
            "beta betainc betaln gamma gammainc gammaincc gammaln comb digamma gammasgn loggamma "
            "multigammaln poch",
        ),
        (
            "Error functions, integrals and others",
            "error_functions other_functions",
            "erf erfc erfcx erfinv ndtr ndtri expi dawsn fresnel spence wofz sici owens_t",
        ),
    ],
    "minixla.scipy.linalg": [
        (
            "Factorizations",
            "factorizations",
            "cho_factor cholesky schur svd eigh eigh_tridiagonal polar",
        ),
        ("Systems", "", "cho_solve solve solve_triangular inv det"),
    ],
    "minixla.sharding": [
        (
            "Meshes and shardings",
            "",
            "AxisRef DimensionSharding TensorSharding Mesh NamedSharding PartitionSpec "
            "AbstractMesh "
            "AbstractDevice AxisType ManualAxisType Sharding SingleDeviceSharding "
            "get_abstract_mesh "
            "get_mesh set_mesh use_abstract_mesh make_single_device_sharding",
        ),
        ("Sharding of values", "layouts sharding_passes", "reshard auto_axes explicit_axes"),
        ("Sharding text", "text", ""),
    ],
}


def subjects_of(namespace: str, files: dict[str, str]) -> dict[str, list[str]]:
    """Return the names of a namespace by subject.

    Args:
        namespace: the namespace.
        files: for each name, the source file or family to which it belongs.

    Returns:
        The subjects in order, each with at least one name. Names without a subject come last.
    """
    table = SUBJECTS.get(namespace, [])
    found: dict[str, list[str]] = {title: [] for title, _, _ in table}
    by_name = {each: title for title, _, names in table for each in names.split()}
    by_file = {each: title for title, stems, _ in table for each in stems.split()}
    for name, file in files.items():
        title = by_name.get(name) or by_file.get(file) or _rest(namespace, name)
        found.setdefault(title, []).append(name)
    return {title: names for title, names in found.items() if names}


def _rest(namespace: str, name: str) -> str:
    if namespace == "minixla.lax" and name.endswith("_p"):
        return "Primitives of JAX"
    if namespace == "minixla.random":
        return "Draws"
    return "Functions" if name[0].islower() else "Types and constants"
