"""The site: it builds without a warning, its links lead somewhere, a browser shows it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import minixla as mx

pytestmark = pytest.mark.docs
ROOT = Path(__file__).resolve().parents[2]
NEEDED = ("sphinx", "myst_nb", "furo", "ipykernel", "sphinx_copybutton")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site, built anew with its notebook run."""
    if lacking := [name for name in NEEDED if find_spec(name) is None]:
        pytest.skip(f"the extra docs is not installed: there is no {', '.join(lacking)}")
    folder = tmp_path_factory.mktemp("site")
    words = [sys.executable, "-m", "sphinx", "-q", "--fail-on-warning", "--keep-going"]
    words += [
        "-b",
        "html",
        "-d",
        str(folder / "doctrees"),
        str(ROOT / "docs"),
        str(folder / "html"),
    ]
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr[-5000:]
    return folder / "html"


class _Links(HTMLParser):
    """What a page links to, and the names within it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.names: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.names |= {name for name in (given.get("id"), given.get("name")) if name}
        link = given.get("href" if tag in ("a", "link") else "src")
        if link:
            self.links.append(link)


def broken(folder: Path) -> Iterator[str]:
    """The links of a folder's pages that lead to no file, or to no place in it."""
    pages = {path: _Links(path.read_text()) for path in folder.rglob("*.html")}
    for page, read in pages.items():
        for link in read.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            place = unquote(parts.fragment)
            if not target.exists() or (
                place and target in pages and place not in pages[target].names
            ):
                yield f"{page.relative_to(folder)}: {link}"


def test_links_lead_somewhere(site: Path) -> None:
    assert sorted({*broken(site)}) == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<a href="b.html#x"></a><a href="c.html"></a><a href="#y"></a>'
    )
    (tmp_path / "b.html").write_text('<p id="x"></p>')
    assert sorted(broken(tmp_path)) == ["a.html: #y", "a.html: c.html"]


def test_the_reference_has_every_public_name(site: Path) -> None:
    for namespace, page in {"mx": "minixla", "mx.numpy": "minixla.numpy"}.items():
        text = (site / "generated" / f"{page}.html").read_text()
        module = mx if namespace == "mx" else mx.numpy
        lacking = [n for n in module.__all__ if f"{page}.{n}" not in text and f">{n}<" not in text]
        modules = {name for name in lacking if hasattr(getattr(module, name), "__path__")}
        modules |= {name for name in lacking if type(getattr(module, name)) is type(mx)}
        assert not {*lacking} - modules


def test_the_notebook_was_run(site: Path) -> None:
    text = (site / "ten_minutes.html").read_text()
    assert "cross_check of loss: ok" in text
    assert "stablehlo.dot_general" in text


def test_start_page(browser, serve, site: Path) -> None:
    browser.open(f"{serve(site)}/index.html")
    assert browser.wait("h1").text.startswith("minixla")
    assert any("Ten minutes" in text for text in browser.texts(".sidebar-tree a"))
    assert not browser.messages()
    assert not browser.outside()


def test_a_reference_page(browser, serve, site: Path) -> None:
    address = serve(site)
    browser.open(f"{address}/generated/minixla.numpy.html")
    # The theme scrolls smoothly, so a click by coordinates may miss.
    link = browser.find('a[href="minixla.numpy.median.html"]')[0]
    browser.script("arguments[0].click()", link)
    browser.wait("#minixla\\.numpy\\.median")
    assert "axis" in browser.find("#minixla\\.numpy\\.median")[0].text
    assert browser.texts(".crumbs a") == ["minixla.numpy", "Statistics"]
    assert not browser.messages()
    assert not browser.outside()


PAGES = ("index", "operations", "sharding", "custom_operations", "generated/minixla.numpy")


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("width", [1440, 390])
def test_pages_fit_the_window(browser, serve, site: Path, page: str, width: int) -> None:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        browser.open(f"{serve(site)}/{page}.html")
        assert browser.script("return document.scrollingElement.scrollWidth") <= width
        scrolled = "return [...document.querySelectorAll('.table-wrapper')]"
        scrolled += ".filter(each => each.scrollWidth > each.clientWidth + 1).length"
        assert width < 500 or browser.script(scrolled) == 0
    finally:
        browser.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_each_function_has_a_page(site: Path) -> None:
    for name in ("jit", "numpy.median", "ops.dot_general", "nn.gelu", "random.normal"):
        assert (site / "generated" / f"minixla.{name}.html").exists()
    text = (site / "generated" / "minixla.numpy.html").read_text()
    assert "https://docs.jax.dev/en/latest/_autosummary/jax.numpy.kaiser.html" in text


def test_search_finds_a_function(browser, serve, site: Path) -> None:
    browser.open(f"{serve(site)}/search.html?q=associative_scan")
    browser.wait(lambda: browser.find("#search-results li"), "results of the search")
    assert any("associative_scan" in text for text in browser.texts("#search-results li"))
    assert not browser.outside()
