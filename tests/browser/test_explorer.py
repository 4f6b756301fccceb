"""A graph in Model Explorer, in a browser: its nodes, its groups, and overlays switched on."""

from __future__ import annotations

import importlib.util
import io
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pytest

import minixla as mx
from minixla.tools.explorer import Exploration
from tests.browser.harness import Page
from tests.browser.pictures import W, X, kept, network

if TYPE_CHECKING:
    from selenium.webdriver.remote.webelement import WebElement

pytestmark = pytest.mark.docs

NAN = "#e57373"
FONT = "https://fonts.gstatic.com/"


@pytest.fixture(scope="module")
def explored() -> Iterator[Exploration]:
    """A network with its overlays, served; skipped where Model Explorer is not installed."""
    with pytest.MonkeyPatch.context() as patch:
        folder = os.environ.get("MINIXLA_EXPLORER")
        if folder:  # installed apart: see the Makefile
            patch.syspath_prepend(folder)
            patch.setenv("PYTHONPATH", folder)
        if importlib.util.find_spec("model_explorer") is None:
            pytest.skip("Model Explorer is not installed: pip install 'minixla[explorer]'")
        found = mx.explore(network, X, W, overlays=["errors", "nan"], browser=False)
    yield found
    found.stop()


@pytest.fixture
def viewer(browser: Page, explored: Exploration) -> Page:
    """The browser, showing the network."""
    browser.open(explored.url)
    browser.wait(lambda: browser.texts(".run-name"), "the list of overlays")
    return browser


def columns(viewer: Page) -> list[list[str]]:
    """The cells of the table of nodes: number, label, and a value for each overlay."""
    cells = "[...row.cells].map(cell => cell.innerText.trim())"
    found = viewer.script(f"return [...document.querySelectorAll('tr')].map(row => {cells})")
    return [row for row in found if len(row) > 2 and row[0].isdigit()]


def test_every_node_is_there_with_its_overlays(viewer, explored):
    assert viewer.texts(".run-name") == explored.overlays
    found = {row[1]: row[2:] for row in columns(viewer)}
    assert {"input 0", "call", "dot_general", "tanh", "while_", "log", "results"} <= set(found)
    flops = 2 * 16 * 8 * 8
    assert found["dot_general"][:2] == [str(flops), str(4 * (16 * 8 + 8 * 8 + 16 * 8))]
    assert "NaN is made here" in found["log"] and float(found["log"][-1]) >= 0


def canvas(viewer: Page) -> WebElement:
    """What the graph is drawn on: the largest."""
    return max(viewer.find("canvas"), key=lambda each: each.size["width"] * each.size["height"])


def pixels(viewer: Page, color: str) -> int:
    """How many pixels of the graph have a colour."""
    from PIL import Image

    picture = Image.open(io.BytesIO(canvas(viewer).screenshot_as_png)).convert("RGB")
    wanted = [int(color[at : at + 2], 16) for at in (1, 3, 5)]
    return int((np.abs(np.asarray(picture).astype(int) - wanted).max(axis=2) <= 3).sum())


def reveal(viewer: Page, label: str) -> None:
    """Opens the groups around a node, and moves it into the middle."""
    cell = next(each for each in viewer.find("td.node-label") if each.text == label)
    viewer.press(cell)


def switch(viewer: Page, name: str) -> None:
    """Colours the nodes by an overlay."""
    number = viewer.texts(".run-name").index(name)
    icon = viewer.find(".index-row .visibility")[number]
    if "selected" not in str(icon.get_attribute("class")):
        viewer.press(icon)
    viewer.wait(lambda: "selected" in str(icon.get_attribute("class")), f"the switch of {name}")


def test_an_overlay_is_switched_on(viewer):
    switch(viewer, "arithmetic operations")
    reveal(viewer, "log")
    viewer.wait(lambda: pixels(viewer, "#eaeff6") > 10_000, "the opened group")
    assert pixels(viewer, NAN) == 0
    switch(viewer, "NaN and infinities")
    viewer.wait(lambda: pixels(viewer, NAN) > 2000, "the colour of NaN")


def test_a_node_says_its_line_and_its_cost(viewer, tmp_path):
    switch(viewer, "NaN and infinities")
    reveal(viewer, "log")
    viewer.wait(lambda: pixels(viewer, NAN) > 2000, "the node")

    from selenium.webdriver import ActionChains

    def selected() -> bool:
        ActionChains(viewer.driver).move_to_element(canvas(viewer)).click().perform()
        return "transcendentals" in viewer.script("return document.body.innerText")

    viewer.wait(selected, "what is said of the node")
    text = viewer.script("return document.body.innerText")
    line = network.__code__.co_firstlineno + 4
    assert f"pictures.py:{line} (network)" in text and "f32[16,8]" in text
    picture = kept("explorer.png", tmp_path)
    viewer.picture(picture)
    assert 20_000 < picture.stat().st_size < 300_000


def test_without_a_network_only_a_font_is_missing(viewer):
    assert all(address.startswith(FONT) for address in viewer.outside())
