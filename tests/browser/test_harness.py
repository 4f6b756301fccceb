"""The harness sees what a page shows, what it complains of, and what it asks others for."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.docs

PAGE = """<!doctype html>
<title>A page</title><link rel="icon" href="data:,"><p id="late" hidden>here
</p><script>setTimeout(() => { document.querySelector("#late").hidden = false }, 200)</script>"""


def test_what_comes_late_is_waited_for(browser, serve, tmp_path):
    (tmp_path / "index.html").write_text(PAGE)
    browser.open(f"{serve(tmp_path)}/index.html")
    assert browser.wait("#late").text == "here"
    assert browser.driver.title == "A page"
    assert not browser.messages() and not browser.outside()


def test_what_does_not_come_is_told_with_the_page(browser, tmp_path):
    page = tmp_path / "page.html"
    page.write_text("<p>all there is</p><script>console.error('it broke')</script>")
    with pytest.raises(AssertionError, match=r"#gone did not come(?s:.)*all there is(?s:.)*broke"):
        browser.open(page).wait("#gone", seconds=0.3)


def test_other_machines_are_out_of_reach_and_told(browser, tmp_path):
    page = tmp_path / "page.html"
    page.write_text('<img src="https://example.com/picture.png"><p>text</p>')
    browser.open(page).wait("p")
    assert browser.outside() == ["https://example.com/picture.png"]
    assert browser.script("return document.images[0].naturalWidth") == 0
    page.write_text("<p>alone</p>")
    assert browser.open(page).outside() == []


def test_a_picture_shows_the_page(browser, tmp_path):
    from PIL import Image

    page, picture = tmp_path / "page.html", tmp_path / "page.png"
    page.write_text('<body style="margin:0;background:#0000ff">')
    browser.open(page).picture(picture)
    with Image.open(picture) as image:
        assert image.convert("RGB").getpixel((5, 5)) == (0, 0, 255)
        assert image.width >= 1000
