"""The page of `show --html` in a browser: search, colours, and what belongs together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import minixla as mx
import minixla.numpy as mnp
from tests.browser.harness import Page
from tests.browser.pictures import W, X, kept, network

if TYPE_CHECKING:
    from selenium.webdriver.remote.webelement import WebElement

pytestmark = pytest.mark.docs


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "network.html"
    mx.explore(network, X, W, overlays=["nan"], path=path)
    return path


def lost(x):
    return (mnp.cos(x) + 1e6) - 1e6


@pytest.fixture(scope="module")
def findings(tmp_path_factory):
    """The page of a report, of a program that loses digits."""
    path = tmp_path_factory.mktemp("page") / "findings.html"
    mx.explore(mx.cross_check(lost, X, gradients=False), path=path)
    return path


@pytest.fixture
def page(browser: Page, file) -> Page:
    browser.open(file)
    browser.wait("svg")
    return browser


def box_of(page: Page, label: str) -> WebElement:
    return next(each for each in page.find("g[data-node]") if each.text.startswith(label))


def rows(page: Page) -> list[str]:
    return [row.text for row in page.find("tbody tr") if row.is_displayed()]


def colored(page: Page, name: str) -> dict[str, str]:
    """The colours of boxes after an overlay was chosen, by their labels."""
    for option in page.find("#overlay option"):
        if option.text == name:
            option.click()
    found = page.script(
        "return [...document.querySelectorAll('g[data-node]')].map("
        "g => [g.querySelector('text').textContent, g.querySelector('rect').style.fill])"
    )
    return {label: fill for label, fill in found if fill}


def test_it_stands_alone(page):
    assert not page.messages() and not page.outside()
    assert page.driver.title == "network"
    assert {"while_", "log"} <= {text.split("\n")[0] for text in page.texts("g[data-node]")}


@pytest.mark.parametrize(("words", "label"), [("log", "log"), ("tanh f32[16,8]", "tanh")])
def test_instructions_are_searched_for(page, words, label):
    everything = len(rows(page))
    page.find("#search")[0].send_keys(words)
    found = rows(page)
    assert 0 < len(found) < everything and any(label in row for row in found)
    assert page.texts("#count") == [f"{len(found)} of {everything}"]


def test_an_overlay_is_switched_on_and_off(page, tmp_path):
    fills = colored(page, "NaN and infinities")
    assert fills["log"] == "rgb(229, 115, 115)" and "tanh" not in fills
    assert page.texts("#value") == ["NaN and infinities"]
    assert "NaN is made here" in page.texts("#legend span")
    box_of(page, "log").click()
    page.picture(kept("page.png", tmp_path))
    assert set(colored(page, "bytes read and written")) >= {"tanh", "dot_general", "log"}
    assert colored(page, "none") == {}


def test_what_a_check_found_is_switched_on(browser, findings):
    browser.open(findings)
    browser.wait("svg")
    kinds = colored(browser, "findings of cross_check")
    assert kinds == {"sub": "rgb(255, 204, 128)"}
    assert browser.texts("#value") == ["findings of cross_check"]
    assert "cancellation" in browser.texts("#legend span")
    errors = colored(browser, "error that cross_check found in ulp")
    assert errors["sub"] == "rgb(239, 154, 154)" and "cos" not in errors
    assert not browser.messages() and not browser.outside()


def test_a_node_its_row_and_its_line_are_chosen_together(page):
    box = box_of(page, "log")
    box.click()
    name = box.get_attribute("data-node")
    (row,) = page.find("tr.chosen")
    assert row.get_attribute("data-node") == name and row.is_displayed()
    (line,) = page.find(".line.chosen")
    assert line.text.strip().endswith("return mnp.log(x).mean()")


def test_a_line_chooses_its_instructions(page):
    line = next(each for each in page.find(".line[data-line]") if "tanh" in each.text)
    line.click()
    found = [row.text for row in page.find("tr.chosen")]
    assert len(found) == 4 and all("layer" in text for text in found)
