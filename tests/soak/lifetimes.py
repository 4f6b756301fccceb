"""Search for objects that outlive their function: random closures at random entry points."""

from __future__ import annotations

import gc
import itertools
import random
import sys
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import minixla as mx
import minixla.numpy as mnp
from minixla.engine import eager

X = np.linspace(0.1, 0.9, 4, dtype=np.float32)
#: Steps of a function body; each takes a value and the captured array.
STEPS: dict[str, Callable[[Any, Any], Any]] = {
    "sin": lambda x, a: mnp.sin(x) * a,
    "sum": lambda x, a: x + (x * a).sum(),
    "sort": lambda x, a: mnp.sort(x) + a,
    "matmul": lambda x, a: mnp.outer(x, x) @ (x + a),
    "where": lambda x, a: mnp.where(x > 0.5, x, x * a),
    "cumsum": lambda x, a: mnp.cumsum(x) * 0.1 + a,
    "norm": lambda x, a: x / mnp.linalg.norm(x + a),
    "softmax": lambda x, a: mx.nn.softmax(x * a),
    "cond": lambda x, a: mx.cond(x[0] > 0, lambda x: x * a, lambda x: x, x),
    "scan": lambda x, a: mx.scan(lambda c, _: (c * a, c.sum()), x, None, length=2)[0],
    "fori_loop": lambda x, a: mx.fori_loop(0, 2, lambda _, c: c + a, x),
    "map": lambda x, a: mx.map(lambda y: y * 2, x) + a,
    "jit": lambda x, a: mx.jit(lambda x: x * a)(x),
    "checkpoint": lambda x, a: mx.checkpoint(lambda x: mnp.tanh(x * a))(x),
    "solve": lambda x, a: mnp.linalg.solve(mnp.eye(4) + mnp.outer(x, x), x) + a,
    "random": lambda x, a: x + mx.random.normal(mx.random.key(0), (4,)) * a,
}
WRAPPERS: dict[str, Callable[[Any], Any]] = {
    "jit": mx.jit,
    "grad": lambda f: mx.grad(lambda x: f(x).sum()),
    "vmap": lambda f: lambda x: mx.vmap(f)(jnp.stack([x, x]))[0],
    "jvp": lambda f: lambda x: mx.jvp(f, (x,), (x,))[1],
    "linearize": lambda f: lambda x: mx.linearize(f, x)[1](x),
    "checkpoint": mx.checkpoint,
    "jax.jit": jax.jit,
    "from_jax": lambda f: mx.from_jax(mx.jit(f)),
    "custom_jvp": lambda f: _with_rule(f),
}
ENDS: dict[str, Callable[[Any], Any]] = {
    "call": lambda f: f(X),
    "jit": lambda f: mx.jit(f)(X),
    "make_graph": lambda f: mx.make_graph(f)(X).stablehlo(),
    "reference": lambda f: mx.reference(f)(X),
    "lower": lambda f: mx.jit(f).lower(X).as_text(),
    "export": lambda f: mx.export(f, X),
}


def _with_rule(function: Any) -> Any:
    custom = mx.custom_jvp(function)
    custom.defjvp(lambda x, t: mx.jvp(function, x, t))
    return custom


def library_functions() -> list[Any]:
    """Return the jitted functions that the modules of JAX and minixla define, such as `jnp.add`."""
    kind = type(jax.jit(abs))
    return [each for each in gc.get_objects() if type(each) is kind and _is_of_library(each)]


def _is_of_library(function: Any) -> bool:
    module = function.__module__ or ""
    if module.split(".")[0] not in ("jax", "minixla"):  # `mx.jit` returns a function of JAX
        return False
    # A function that JAX does not jit itself is jitted by others.
    return getattr(sys.modules[module], function.__name__, None) is not function.__wrapped__


def collect() -> None:
    """Free what no function holds any more."""
    # Outside jit the engine keeps the last 64 programs, which may call JAX functions.
    eager._running_programs.cache_clear()
    # JAX's functions keep a reference to each trace under which they were called without tracers;
    # `test_lifetimes.py` measures that they do so without minixla.
    for function in library_functions():
        function._clear_cache()
    gc.collect()


@dataclass
class Closure:
    """A function of some steps that captures an array, and transformations of it."""

    steps: tuple[str, ...]
    wrappers: tuple[str, ...]
    end: str

    def _made(self, array: Any) -> Any:
        def function(x: Any) -> Any:
            for name in self.steps:
                x = STEPS[name](x, array)
            return x

        made: Any = function
        for name in self.wrappers:
            made = WRAPPERS[name](made)
        return made

    def _called(self) -> weakref.ref[Any]:
        array = jnp.asarray(np.random.default_rng(0).random(4, np.float32))
        result = ENDS[self.end](self._made(array))
        if not isinstance(result, (str, bytes)):
            jax.block_until_ready(result)
        return weakref.ref(array)

    def run(self) -> str | None:
        """Return the objects left of new closures after garbage collection."""
        try:
            self._called()
        except (mx.MinixlaError, TypeError):  # an order of transformations that is not supported
            return None
        counts = []
        for _ in range(4):
            for _ in range(3):
                self._called()
            collect()
            counts.append(len(gc.get_objects()))
        arrays = [self._called() for _ in range(2)]
        collect()
        gc.collect()  # a closure in a reference cycle is freed in two passes
        if any(each() is not None for each in arrays):
            return f"{self}: a captured array is kept"
        growth = [after - before for before, after in itertools.pairwise(counts)]
        return None if min(growth) < 3 else f"{self}: objects are left: {growth}"

    def shrunk(self) -> str:
        """Return a closure with as few steps and transformations as show the fault."""
        smallest = self
        for part in ("steps", "wrappers"):
            index = 0
            while index < len(getattr(smallest, part)):
                own = getattr(smallest, part)
                fewer = Closure(**{**vars(smallest), part: own[:index] + own[index + 1 :]})
                if fewer.run() is None:
                    index += 1
                else:
                    smallest = fewer
        return str(smallest)


def cases(seed: int) -> Iterator[Closure]:
    """Random closures."""
    draw = random.Random(seed)
    while True:
        steps = tuple(draw.choices(list(STEPS), k=draw.randint(1, 4)))
        wrappers = tuple(draw.choices(list(WRAPPERS), k=draw.randint(0, 2)))
        yield Closure(steps, wrappers, draw.choice(list(ENDS)))
