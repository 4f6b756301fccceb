"""Outside all transformations a function is compiled once for all values of a float."""

import jax
import numpy as np
import pytest

import minixla as mx
import minixla.numpy as mnp

X = np.arange(6, dtype=np.float32)
M, C = X.reshape(2, 3), X.astype(np.complex64)
SPD = 2 * np.eye(3, dtype=np.float32)
KEY = mx.random.key(0)
special, nn, random, linalg = mx.scipy.special, mx.nn, mx.random, mnp.linalg

#: Calls of functions with a float that depends on v. `norm(ord=)`, `pad(end_values=)` and
#: `take(fill_value=)` are compiled for each value, as in JAX.
CALLS = {
    "quantile": lambda v: mnp.quantile(X, v / 10),
    "percentile": lambda v: mnp.percentile(X, v * 10.0),
    "nanquantile": lambda v: mnp.nanquantile(X, v / 10),
    "nanpercentile": lambda v: mnp.nanpercentile(M, v * 10.0, axis=1),
    "quantile np": lambda v: mnp.quantile(X, np.float32([v / 10, 0.5])),
    "quantile method": lambda v: mnp.quantile(X, v / 10, method="hazen"),
    "quantile kw": lambda v: mnp.quantile(a=X, q=v / 10),
    "pad": lambda v: mnp.pad(X, 1, constant_values=float(v)),
    "pad tuple": lambda v: mnp.pad(X, 1, constant_values=(float(v), 1.0)),
    "isclose": lambda v: mnp.isclose(X, X + 1, rtol=v / 10),
    "allclose": lambda v: mnp.allclose(X, X + 1, atol=v / 10),
    "full": lambda v: mnp.full((3,), float(v)),
    "full_like": lambda v: mnp.full_like(X, float(v)),
    "power": lambda v: mnp.power(X, v + 0.5),
    "x**p": lambda v: mnp.asarray(X) ** (v + 0.5),
    "float_power": lambda v: mnp.float_power(X, v + 0.5),
    "clip": lambda v: mnp.clip(X, v / 10.0, v + 0.5),
    "clip kw": lambda v: mnp.clip(X, min=v / 10.0),
    "nan_to_num": lambda v: mnp.nan_to_num(X, nan=float(v)),
    "nan_to_num pos": lambda v: mnp.nan_to_num(X, posinf=float(v), neginf=-float(v)),
    "where": lambda v: mnp.where(X > 2, X, float(v)),
    "select": lambda v: mnp.select([X > 2], [X], default=float(v)),
    "interp": lambda v: mnp.interp(float(v), X, X),
    "interp lr": lambda v: mnp.interp(X, X, X, left=float(v), right=-1.0),
    "interp period": lambda v: mnp.interp(X, X, X, period=v + 3.5),
    "unwrap": lambda v: mnp.unwrap(X, discont=v + 0.5),
    "unwrap period": lambda v: mnp.unwrap(X, period=v + 0.5),
    "trapezoid": lambda v: mnp.trapezoid(X, dx=v / 10),
    "gradient": lambda v: mnp.gradient(X, v / 10 + 0.1),
    "linspace": lambda v: mnp.linspace(0.0, v + 0.5, 5),
    "logspace": lambda v: mnp.logspace(0.0, v / 10, 5),
    "logspace base": lambda v: mnp.logspace(0.0, 1.0, 5, base=v + 1.5),
    "geomspace": lambda v: mnp.geomspace(1.0, v + 1.5, 5),
    "sum initial": lambda v: mnp.sum(X, initial=float(v)),
    "max initial": lambda v: mnp.max(X, initial=v + 0.5),
    "prod initial": lambda v: mnp.prod(X, initial=v + 0.5),
    "std ddof": lambda v: mnp.std(X, ddof=v / 10),
    "var correction": lambda v: mnp.var(X, correction=v / 10),
    "add": lambda v: mnp.add(X, v + 0.5),
    "maximum": lambda v: mnp.maximum(X, v + 0.5),
    "heaviside": lambda v: mnp.heaviside(X, v + 0.5),
    "copysign": lambda v: mnp.copysign(X, -v - 0.5),
    "histogram range": lambda v: mnp.histogram(X, 3, range=(0.0, v + 4.5))[0],
    "digitize": lambda v: mnp.digitize(X, np.float32([v, 9])),
    "searchsorted": lambda v: mnp.searchsorted(X, v + 0.5),
    "convolve": lambda v: mnp.convolve(X, np.float32([v, 1])),
    "polyval": lambda v: mnp.polyval(X, v + 0.5),
    "insert": lambda v: mnp.insert(X, 1, v + 0.5),
    "append": lambda v: mnp.append(X, v + 0.5),
    "fill_diagonal": lambda v: mnp.fill_diagonal(M, v + 0.5, inplace=False),
    "put": lambda v: mnp.put(X, np.array([1]), v + 0.5, inplace=False),
    "ediff1d": lambda v: mnp.ediff1d(X, to_end=v + 0.5),
    "diff": lambda v: mnp.diff(X, prepend=v + 0.5),
    "average": lambda v: mnp.average(X, weights=X + v + 0.5),
    "kaiser": lambda v: mnp.kaiser(5, v + 0.5),
    "i0": lambda v: mnp.i0(X * v),
    "nanmax": lambda v: mnp.nanmax(X, initial=v + 0.5),
    "block": lambda v: mnp.block([X, v + 0.5]),
    "complex q": lambda v: mnp.multiply(C, complex(v, 1.0)),
    "pinv": lambda v: linalg.pinv(SPD, rtol=v / 100),
    "matrix_rank": lambda v: linalg.matrix_rank(SPD, rtol=v / 100),
    "lstsq": lambda v: linalg.lstsq(SPD, SPD, rcond=v / 100)[0],
    "vector_norm": lambda v: linalg.vector_norm(X, ord=v + 0.5),
    "leaky_relu": lambda v: nn.leaky_relu(X, v / 10),
    "elu": lambda v: nn.elu(X, v + 0.5),
    "celu": lambda v: nn.celu(X, v + 0.5),
    "standardize": lambda v: nn.standardize(X, epsilon=v / 1e4),
    "logsumexp": lambda v: nn.logsumexp(X, b=v + 0.5),
    "dot_product_attention": lambda v: nn.dot_product_attention(
        *[np.ones((1, 2, 1, 4), "f4")] * 3, scale=v / 10
    ),
    "squareplus": lambda v: nn.squareplus(X, v + 0.5),
    "erf": lambda v: special.erf(v + 0.5),
    "gammainc": lambda v: special.gammainc(v + 0.5, X),
    "xlogy": lambda v: special.xlogy(X, v + 0.5),
    "betainc": lambda v: special.betainc(v + 0.5, 2.0, X / 10),
    "zeta": lambda v: special.zeta(X + 2, v + 0.5),
    "polygamma": lambda v: special.polygamma(1, X + v + 0.5),
    "entr": lambda v: special.entr(X * v),
    "multigammaln": lambda v: special.multigammaln(X + v + 0.5, 1),
    "norm.pdf": lambda v: mx.scipy.stats.norm.pdf(X, loc=v + 0.5, scale=2.0),
    "beta.pdf": lambda v: mx.scipy.stats.beta.pdf(X / 10, v + 0.5, 2.0),
    "t.logpdf": lambda v: mx.scipy.stats.t.logpdf(X, v + 0.5),
    "expon": lambda v: mx.scipy.stats.expon.cdf(X, scale=v + 0.5),
    "uniform": lambda v: random.uniform(KEY, (3,), minval=v / 10.0, maxval=v + 1.0),
    "bernoulli": lambda v: random.bernoulli(KEY, v / 10, (3,)),
    "gamma": lambda v: random.gamma(KEY, v + 0.5, (3,)),
    "beta": lambda v: random.beta(KEY, v + 0.5, 2.0, (3,)),
    "truncated": lambda v: random.truncated_normal(KEY, -v - 0.5, v + 0.5, (3,)),
    "poisson": lambda v: random.poisson(KEY, v + 0.5, (3,)),
    "t": lambda v: random.t(KEY, v + 0.5, (3,)),
    "binomial": lambda v: random.binomial(KEY, 5.0, v / 10, (3,)),
    "pareto": lambda v: random.pareto(KEY, v + 0.5, (3,)),
    "weibull": lambda v: random.weibull_min(KEY, v + 0.5, 2.0, (3,)),
    "choice": lambda v: random.choice(KEY, X, p=np.float32([v, 1, 1, 1, 1, 1]) / (v + 5)),
    "dirichlet": lambda v: random.dirichlet(KEY, np.float32([v, 1, 2])),
    "categorical": lambda v: random.categorical(KEY, X * v),
    "randint": lambda v: random.randint(KEY, (3,), 0, v + 5),
    "fold_in": lambda v: random.fold_in(KEY, v),
    "geometric": lambda v: random.geometric(KEY, v / 10, (3,)),
    "chisquare": lambda v: random.chisquare(KEY, v + 0.5, shape=(3,)),
    "rayleigh": lambda v: random.rayleigh(KEY, v + 0.5, (3,)),
    "wald": lambda v: random.wald(KEY, v + 0.5, (3,)),
    "lognormal": lambda v: random.lognormal(KEY, v + 0.5, (3,)),
    "loggamma": lambda v: random.loggamma(KEY, v + 0.5, (3,)),
    "triangular": lambda v: random.triangular(KEY, 0.0, v / 10, 1.0, (3,)),
    "mvn": lambda v: random.multivariate_normal(KEY, X[:3] * v, SPD),
    "gn": lambda v: random.generalized_normal(KEY, v + 0.5, (3,)),
    "init normal": lambda v: nn.initializers.normal(v / 10)(KEY, (3,)),
    "init uniform": lambda v: nn.initializers.uniform(v / 10)(KEY, (3,)),
    "init trunc": lambda v: nn.initializers.truncated_normal(v / 10)(KEY, (3,)),
    "constant": lambda v: nn.initializers.constant(v / 10)(KEY, (3,)),
    "vs": lambda v: nn.initializers.variance_scaling(v / 10, "fan_in", "normal")(KEY, (3, 4)),
    "unique": lambda v: mnp.unique(X, size=3, fill_value=v + 0.5),
    "hypot": lambda v: mnp.hypot(X, v + 0.5),
    "arctan2": lambda v: mnp.arctan2(v + 0.5, X),
    "logaddexp": lambda v: mnp.logaddexp(X, v + 0.5),
    "fmod": lambda v: mnp.fmod(X, v + 0.5),
    "remainder": lambda v: mnp.remainder(X, v + 0.5),
    "floor_divide": lambda v: mnp.floor_divide(X, v + 0.5),
    "true_divide": lambda v: mnp.true_divide(X, v + 0.5),
    "divmod": lambda v: mnp.divmod(X, v + 0.5)[0],
    "nextafter": lambda v: mnp.nextafter(X, v + 0.5),
    "sinc": lambda v: mnp.sinc(X * v),
    "piecewise": lambda v: mnp.piecewise(X, [X < 2], [v + 0.5, 1.0]),
    "place": lambda v: mnp.place(X, X > 2, np.float32([v]), inplace=False),
    "isin": lambda v: mnp.isin(X, v + 0.5),
    "histogram_bin_edges": lambda v: mnp.histogram_bin_edges(X, 3, range=(0.0, v + 4.5)),
    "corr": lambda v: mnp.correlate(X, np.float32([v, 1])),
}


@pytest.fixture
def compilations():
    events = []

    def listen(event, *_, **__):
        if event.endswith("backend_compile_duration"):
            events.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield events
    jax.monitoring.unregister_event_duration_listener(listen)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CALLS)
def test_it_is_compiled_once_for_all_values(name, compilations):
    # Arrays of 1 and 2 may be cached from earlier tests, after JAX's caches were cleared.
    for value in (1, 2, 8, 9):
        CALLS[name](value)
    compilations.clear()
    for value in range(3, 7):
        CALLS[name](value)
    assert not compilations


def test_the_value_counts():
    """The compiled function does not keep the first value."""
    for value in (0.1, 0.5, 0.9):
        np.testing.assert_allclose(mnp.quantile(X, value), np.quantile(X, value), rtol=1e-6)
        np.testing.assert_array_equal(
            mnp.pad(X, 1, constant_values=value), np.pad(X, 1, constant_values=np.float32(value))
        )
    assert mnp.isclose(1.0, 1.05, rtol=0.1) and not mnp.isclose(1.0, 1.05, rtol=0.01)
    x = np.float32([1, 1.05])
    assert mnp.allclose(x[:1], x[1:], rtol=0.1) and not mnp.allclose(x[:1], x[1:], rtol=0.01)
