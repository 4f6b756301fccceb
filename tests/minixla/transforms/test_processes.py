"""pmap and collectives over the devices of two processes, which meet on the loopback interface."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from jax import lax

from tests.minixla.transforms.collective_programs import assert_same
from tests.minixla.transforms.one_of_processes import DEVICES, W, X, collectives, loss

ROOT = Path(__file__).parents[3]
COUNT = 2
SECONDS = 150

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="jaxlib's Gloo, by which CPU processes talk, is not in Windows"
)


def free_port() -> int:
    """A port of the loopback interface that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each process found."""
    folder = tmp_path_factory.mktemp("processes")
    script = str(Path(__file__).with_name("one_of_processes.py"))
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    address = f"127.0.0.1:{free_port()}"
    with contextlib.ExitStack() as stack:
        processes = []
        for number in range(COUNT):
            out, err = (
                stack.enter_context((folder / f"{number}.{kind}").open("w"))
                for kind in ("out", "err")
            )
            processes.append(
                subprocess.Popen(
                    [sys.executable, script, address, str(COUNT), str(number)],
                    env=os.environ | {"PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"},
                    stdout=out,
                    stderr=err,
                )
            )
            stack.callback(processes[-1].wait)
            stack.callback(processes[-1].kill)
        _await(processes)
        states = [process.poll() for process in processes]
    if any(states) or None in states:
        texts = [f"{each.name}:\n{each.read_text()}" for each in sorted(folder.iterdir())]
        listed = ", ".join("still ran" if each is None else str(each) for each in states)
        pytest.fail(f"the processes ended with {listed} (limit: {SECONDS} s)\n" + "\n".join(texts))
    outputs = [(folder / f"{number}.out").read_text() for number in range(COUNT)]
    return [json.loads(each.splitlines()[-1]) for each in outputs]


def _await(processes: list[subprocess.Popen[bytes]]) -> None:
    """Returns when all have ended, when one failed (the others would wait for it), or late."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        states = [process.poll() for process in processes]
        if None not in states or any(states):
            return
        time.sleep(0.05)


def own(whole: Any, number: int) -> Any:
    """The part of an array that belongs to the devices of a process."""
    return whole[DEVICES * number : DEVICES * (number + 1)]


def check(results: list[dict[str, Any]], name: str, whole: Any) -> None:
    """Asserts that each process has its members' part of `whole`."""
    for number, each in enumerate(results):
        assert_same(each[name], own(whole, number))


def test_all_devices_are_known_to_each(results):
    assert [each["devices"] for each in results] == [COUNT * DEVICES] * COUNT


def test_collectives(results):
    expected = jax.jit(jax.vmap(lambda x: collectives(lax, x), axis_name="i"))(X)
    for number, each in enumerate(results):
        assert each["collectives"].keys() == expected.keys()
        for name, found in each["collectives"].items():
            np.testing.assert_allclose(found, own(expected[name], number), 1e-5, 1e-5, err_msg=name)


def test_other_calls(results):
    total = np.stack([X.sum(0)] * 4)
    check(results, "again", 2 * total)
    check(results, "tangent", np.stack([(X * X).sum(0)] * 4))
    check(results, "batch", np.stack([total, -total], 2))
    check(results, "counted", np.arange(4))
    for number, each in enumerate(results):
        assert_same(each["local"], np.stack([own(X, number).sum(0)] * DEVICES))


def test_derivatives(results):
    """Those of the whole program: in all processes the same for what all have."""
    mapped = jax.vmap(lambda w, x: loss(lax, w, x), (None, 0), None, axis_name="i")
    value, (of_parameters, of_data) = jax.jit(jax.value_and_grad(mapped, (0, 1)))(W, X)
    for number, each in enumerate(results):
        assert_same(each["value"], value)
        assert_same(each["gradients"][0], of_parameters)
        assert_same(each["gradients"][1], own(of_data, number))


def test_our_function_in_shard_map(results):
    for each in results:
        assert_same(each["in_jax"], np.tanh(X).reshape(4, 1, 5, 3).sum(0))


def test_errors(results):
    phrases = [
        "pmap: a program that JAX traces cannot use devices of other processes",
        "pmap: the reference evaluator has no values of other processes",
        "the mapped axis has size 2, but there are 1 devices of process 1",
        "pmap: the devices of one process must be consecutive",
    ]
    for each in results:
        for message, phrase in zip(each["errors"], phrases, strict=True):
            assert phrase in message
            assert "one_of_processes.py" in message
