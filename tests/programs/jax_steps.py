"""The steps of random programs that mix JAX with minixla: templates of source text.

Every value of a program is a vector of three floats, so that any value fits any step. A template
names its operands `{0}`, `{1}`, ..., its result `{out}` and the functions of its bodies `{f0}`,
`{f1}`. The remaining fields are the library: either minixla or JAX, chosen for each step.
"""

from __future__ import annotations

from typing import NamedTuple

#: The fields of a template that name a library: in minixla, in JAX.
LIBRARY = {
    "np": ("mx.numpy", "jnp"),
    "nn": ("mx.nn", "jax.nn"),
    "random": ("mx.random", "jax.random"),
    "scipy": ("mx.scipy", "jax.scipy"),
    "T": ("mx", "jax"),  # transformations
    "C": ("mx", "lax"),  # control flow and collectives
}


class Template(NamedTuple):
    """One step.

    Attributes:
        name: identifies the step.
        text: the source lines, with fields.
        arity: the number of operands.
        bodies: the number of parameters of each body.
        is_mixed: whether the step exists in both libraries.
        has_reverse: whether JAX has a reverse derivative of the step.
        has_forward: whether JAX has a forward derivative of the step.
        is_closed: whether bodies read their parameters only, as JAX wants of custom rules.
    """

    name: str
    text: str
    arity: int = 1
    bodies: tuple[int, ...] = ()
    is_mixed: bool = False
    has_reverse: bool = True
    has_forward: bool = True
    is_closed: bool = False


TEMPLATES: dict[str, Template] = {}


def _add(name: str, text: str, arity: int = 1, bodies: tuple[int, ...] = (), **flags: bool) -> None:
    is_mixed = any(f"{{{field}}}" in text for field in LIBRARY)
    text = text if "\n" in text or text.startswith("{out}") else f"{{out}} = {text}"
    flags["is_closed"] = name.startswith("custom_")
    TEMPLATES[name] = Template(name, text, arity, bodies, is_mixed, **flags)


def _add_expressions() -> None:
    """Steps without bodies."""
    for name in ("sin", "cos", "tanh", "arctan", "square", "cumsum", "sort", "flip", "arcsinh"):
        _add(name, f"{{np}}.{name}({{0}})")
    for name in ("add", "subtract", "multiply", "maximum", "minimum", "arctan2", "logaddexp"):
        _add(name, f"{{np}}.{name}({{0}}, {{1}})", 2)
    for name in ("softmax", "log_softmax", "gelu", "silu", "softplus", "sigmoid", "relu"):
        _add(name, f"{{nn}}.{name}({{0}})")
    rows = {
        # Operators, and numbers whose types are weak.
        "plus": ("{0} + {1}", 2),
        "times": ("{0} * {1}", 2),
        "scaled": ("0.5 * {0} - 1", 1),
        "quotient": ("{0} / (1.5 + {1} * {1})", 2),
        "power": ("(1 + {0} ** 2) ** 0.5", 1),
        "matrix product": ("{np}.outer({0}, {1}) @ {2} / 3", 3),
        "einsum": ('{np}.einsum("i,j,j->i", {0}, {1}, {2})', 3),
        "dot": ("{np}.dot({0}, {1}) * {2}", 3),
        "choice": ("{np}.where({0} > {1}, {0}, {2})", 3),
        "clip": ("{np}.clip({0}, -1.0, {1})", 2),
        "mean": ("{0} - {0}.mean()", 1),
        "norm": ("{0} / {np}.sqrt(1 + ({0} * {0}).sum())", 1),
        "logsumexp": ("{0} - {scipy}.special.logsumexp({0})", 1),
        "log": ("{np}.log1p({0} * {0})", 1),
        "reshape": ("{0}.reshape(3, 1).T.ravel()", 1),
        "roll": ("{np}.roll({0}, 1)", 1),
        "join": ("{np}.concatenate([{0}[:1], {1}[1:]])", 2),
        "pad": ("{np}.pad({0}[1:], (1, 0), constant_values=0.5)", 1),
        "take": ("{0}[np.array([2, 0, 0])]", 1),
        "take at a traced index": ("{np}.take({0}, {np}.argmax({1})) * {0}", 2),
        "indexed": ("{0}[{np}.argmin({1})] + {1}", 2),
        "added at": ("{0}.at[1].add({1}[0])", 2),
        "set at traced": ("{0}.at[{np}.argmax({1})].set(0.25)", 2),
        "multiplied at": (
            "{0}.at[np.array([2, 0])].multiply({1}[1:], unique_indices=True)",
            2,
        ),
        "cast": ("({0} > 0.1).astype({0}.dtype) * {1}", 2),
        "inverse": ("{np}.linalg.inv({np}.outer({0}, {0}) + 2 * {np}.eye(3)) @ {1}", 2),
        "cholesky": (
            "{np}.linalg.cholesky({np}.outer({0}, {0}) + {np}.diag(2 + {1} ** 2)) @ {1}",
            2,
        ),
        "solve": ("{np}.linalg.solve({np}.outer({0}, {1}) + 9 * {np}.eye(3), {1})", 2),
        "fourier": ("{np}.fft.fft({0}).real", 1),
        "normal": ("{0} + {random}.normal({random}.key(7), (3,), {0}.dtype)", 1),
        "stopped": ("{C}.stop_gradient({0}) * {1}", 2),
        "sorted pairs": ("{np}.sort({np}.stack([{0}, {1}]), axis=0)[1]", 2),
        "of a constant": ("jnp.array([0.5, -0.25, 1.0], {0}.dtype) * {0}", 1),
        "constant first": ("np.array([0.5, -0.25, 1.0]).astype({0}.dtype) @ {0} + {1}", 2),
        "table of JAX": ("jnp.arange(5.0, dtype={0}.dtype)[{np}.argmax({0})] * {0}", 1),
        "table of JAX, at": (
            "jnp.zeros(3, {0}.dtype).at[{np}.array([1, 1, 0])].add({0}) - {1}",
            2,
        ),
        "made of scalars": ("{np}.stack([{0}[0], {0}[2], {0}[1] * {0}[0]])", 1),
        # Functions that only JAX has.
        "array of scalars": ("jnp.array([{0}[0], 1, {0}[1]])", 1),
        "slice": ("lax.dynamic_slice({0}, (jnp.argmax({1}) - 1,), (2,)).sum() * {0}", 2),
        "update": ("lax.dynamic_update_slice({0}, {1}[:2], (jnp.argmin({1}),))", 2),
        "window": ("lax.reduce_window({0}, 0.0, lax.add, (2,), (1,), 'SAME')", 1),
        "largest of a window": (
            "lax.reduce_window({0}, -jnp.inf, lax.max, (2,), (1,), 'SAME')",
            1,
        ),
        "convolution": ("jnp.convolve({0}, {1}, mode='same')", 2),
        "selected": ("lax.select_n({0} > 0.1, {0}, jnp.sin({1}))", 2),
        "clamped": ("lax.clamp(-0.5, {0}, 0.75)", 1),
        "dot_general": ("lax.dot_general({0}, {1}, (((0,), (0,)), ((), ()))) * {0}", 2),
        "exact power": ("lax.integer_pow({0}, 3) / (1 + {0} * {0})", 1),
        "cumulative maximum": ("lax.cummax({0})", 1),
        "largest": ("lax.top_k({0}, 3)[0]", 1),
        "error function": ("lax.erf({0}) + jax.scipy.special.ndtr({1})", 2),
        "digamma": ("jax.scipy.special.digamma(2 + {0} ** 2)", 1),
        "triangular": (
            "jax.scipy.linalg.solve_triangular(jnp.tril(jnp.outer({0}, {1})) + 3 * jnp.eye(3), {0},"
            " lower=True)",
            2,
        ),
        "eigenvalues": ("jnp.linalg.eigvalsh(jnp.outer({0}, {0}) + jnp.diag(jnp.arange(3.0)))", 1),
        "interpolated": ("jnp.interp({0}, jnp.array([-1.0, 0.1, 2.0]), {1})", 2),
        "associative scan": ("lax.associative_scan(jnp.add, {0})", 1),
        "linear transpose": (
            "jax.linear_transpose(lambda x: 2.0 * x[::-1], {0})({1})[0]",
            2,
        ),
        "named": ("jax.ad_checkpoint.checkpoint_name({0}, 'kept') * {0}", 1),
        "one hot": ("jax.nn.one_hot(jnp.argmax({0}), 3, dtype={0}.dtype) * {0}", 1),
        "from a vector of JAX": ("jnp.vander({0}, 3).sum(0)", 1),
    }
    for name, (text, arity) in rows.items():
        _add(name, text, arity)


def _add_transformations() -> None:
    """Steps whose bodies are functions."""
    _add("grad", "{T}.grad(lambda x: {f0}(x).sum())({0})", 1, (1,))
    _add("value_and_grad", "sum({T}.value_and_grad(lambda x: {np}.sum({f0}(x)))({0}))", 1, (1,))
    _add(
        "grad of two",
        "sum({T}.grad(lambda x, y: {f0}(x, y).sum(), argnums=(0, 1))({0}, {1}))",
        2,
        (2,),
    )
    _add(
        "grad with aux",
        "{out}, {out}_aux = {T}.grad(lambda x: ({f0}(x).sum(), {f1}(x)), has_aux=True)({0})\n"
        "{out} = {out} + {out}_aux",
        1,
        (1, 1),
    )
    _add("jvp", "sum({T}.jvp({f0}, ({0},), ({1},)))", 2, (1,))
    _add(
        "vjp",
        "{out}_value, {out}_pull = {T}.vjp({f0}, {0})\n{out} = {out}_value + {out}_pull({1})[0]",
        2,
        (1,),
    )
    _add(
        "pullback in a batch",
        "{out}_pull = {T}.vjp({f0}, {0})[1]\n"
        "{out} = {U}.vmap({out}_pull)({np}.stack([{1}, {0}]))[0].sum(0)",
        2,
        (1,),
    )
    _add(
        "pullback in a derivative",
        "{out}_pull = {T}.vjp({f0}, {0})[1]\n"
        "{out} = {U}.grad(lambda x: {out}_pull(x)[0] @ {0})({1})",
        2,
        (1,),
    )
    _add(
        "linearize",
        "{out}_value, {out}_linear = {T}.linearize({f0}, {0})\n"
        "{out} = {out}_value - {out}_linear({1})",
        2,
        (1,),
    )
    _add(
        "linear function in jit",
        "{out}_linear = {T}.linearize({f0}, {0})[1]\n{out} = {U}.jit({out}_linear)({1})",
        2,
        (1,),
    )
    _add("jacfwd", "{T}.jacfwd({f0})({0}) @ {1}", 2, (1,))
    _add("jacrev", "{1} @ {T}.jacrev({f0})({0})", 2, (1,))
    _add("hessian", "{T}.hessian(lambda x: {f0}(x).sum())({0}) @ {1}", 2, (1,))
    _add("vmap", "{T}.vmap({f0})({np}.stack([{0}, {1}])).sum(0)", 2, (1,))
    _add(
        "vmap, one operand unbatched",
        "{T}.vmap({f0}, in_axes=(1, None), out_axes=1)({np}.stack([{0}, {1}], 1), {2}).sum(1)",
        3,
        (2,),
    )
    _add(
        "vmap with psum",
        '{T}.vmap(lambda x: {f0}(x - {V}.pmean(x, "{out}")), axis_name="{out}")'
        "({np}.stack([{0}, {1}])).sum(0)",
        2,
        (1,),
    )
    _add(
        "psum after",
        '{T}.vmap(lambda x: {V}.psum({f0}(x), "{out}") * {V}.axis_index("{out}"), '
        'axis_name="{out}")({np}.stack([{0}, {1}])).sum(0)',
        2,
        (1,),
    )
    _add(
        "all_gather in a batch",
        '{T}.vmap(lambda x: {f0}({V}.all_gather(x, "{out}").sum(0)), axis_name="{out}")'
        "({np}.stack([{0}, {1}])).sum(0)",
        2,
        (1,),
    )
    _add("jit", "{T}.jit({f0})({0})", 1, (1,))
    _add("jit of two", "{T}.jit({f0})({0}, {1})", 2, (2,))
    _add(
        "jit, called twice",
        "{out}_jit = {T}.jit({f0})\n{out} = {out}_jit({0}) + {out}_jit({1})",
        2,
        (1,),
    )
    _add("checkpoint", "{T}.checkpoint({f0})({0})", 1, (1,))
    _add("checkpoint of two", "{T}.checkpoint({f0})({0}, {1})", 2, (2,))
    _add(
        "scan",
        "{out} = sum({C}.scan(lambda c, x: ({f0}(c, x), c), {0}, {np}.stack([{1}, {2}]))[1])",
        3,
        (2,),
    )
    _add(
        "scan, backwards",
        "{C}.scan(lambda c, x: ({f0}(x), c + x), {0}, {np}.stack([{1}, {2}]), reverse=True)[0]",
        3,
        (1,),
    )
    _add("cond", "{C}.cond({0}.sum() > {1}.sum(), {f0}, {f1}, {2})", 3, (1, 1))
    _add("switch", "{C}.switch({np}.argmax({0}), [{f0}, {f1}, lambda x: x], {1})", 2, (1, 1))
    _add("map", "{C}.map({f0}, {np}.stack([{0}, {1}])).sum(0)", 2, (1,))
    _add("fori_loop", "{C}.fori_loop(0, 3, lambda i, c: {f0}(c), {0})", 1, (1,))
    _add(
        "while_loop",
        "{C}.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, {f0}(s[1])), (0, {0}))[1]",
        1,
        (1,),
        has_reverse=False,
    )
    _add(
        "while_loop that reads values",
        "{C}.while_loop(lambda s: (s[0] < 4) & (s[1].sum() < {1}.sum() + 1),"
        " lambda s: (s[0] + 1, {f0}(s[1])), (0, {0}))[1]",
        2,
        (1,),
        has_reverse=False,
    )
    _add(
        "custom_jvp",
        "{out}_rule = {T}.custom_jvp({f0})\n"
        "{out}_rule.defjvp(lambda p, t: ({out}_rule(*p), {f1}(*p) * t[0]))\n"
        "{out} = {out}_rule({0})",
        1,
        (1, 1),
    )
    _add(
        "custom_vjp",
        "{out}_rule = {T}.custom_vjp({f0})\n"
        "{out}_rule.defvjp(lambda x: ({f0}(x), x), lambda x, ct: ({f1}(x) * ct,))\n"
        "{out} = {out}_rule({0})",
        1,
        (1, 1),
        has_forward=False,
    )
    _add(
        "custom_jvp of tangents",
        "{out}_rule = {T}.custom_jvp(lambda a, x: a * {f0}(x))\n"
        # The rule is the derivative: in a linear function of jax.linearize, JAX drops rules.
        "{out}_rule.defjvp(lambda p, t: ({out}_rule(*p), {out}_rule(t[0], p[1])"
        " + p[0] * {T}.jvp({f0}, p[1:], t[1:])[1]))\n"
        "{out} = {out}_rule({0}, {1})",
        2,
        (1,),
    )
    _add(
        "custom_gradient",
        "{out}_rule = {T}.custom_gradient(lambda x: ({f0}(x), lambda ct: {f1}(x) * ct))\n"
        "{out} = {out}_rule({0})",
        1,
        (1, 1),
        has_forward=False,
    )
    _add(
        "custom_linear_solve",
        "lax.custom_linear_solve(lambda x: 4 * x + jnp.roll(x, 1), {f0}({0}),"
        " lambda matvec, b: jnp.linalg.solve(4 * jnp.eye(3) + jnp.roll(jnp.eye(3), 1, 0), b),"
        " lambda vecmat, b: jnp.linalg.solve(4 * jnp.eye(3) + jnp.roll(jnp.eye(3), 1, 1), b))",
        1,
        (1,),
    )
    _add("named_scope", 'with jax.named_scope("scope"):\n    {out} = {f0}({0})', 1, (1,))
    _add("pytrees", '{T}.jit(lambda d: {{"y": {f0}(d["x"])}})({{"x": {0}}})["y"]', 1, (1,))


_add_expressions()
_add_transformations()

#: Steps without and with bodies.
EXPRESSIONS = [name for name, each in TEMPLATES.items() if not each.bodies]
TRANSFORMATIONS = [name for name, each in TEMPLATES.items() if each.bodies]
