"""Pages in a real browser: Chromium without a window, driven by Selenium, cut off from the network.

`make docs-test` runs the tests that use it. The fixtures `browser` and `serve` are in conftest.py.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import shutil
import threading
from collections.abc import Callable, Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from selenium.webdriver import Chrome
    from selenium.webdriver.remote.webelement import WebElement

T = TypeVar("T")

_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-dev-shm-usage", "--disable-extensions", "--force-device-scale-factor=1"),
)
#: Names of other machines are not looked up, so that a page which needs one fails here.
_ALONE = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1"
_LOCAL = ("localhost", "127.0.0.1")
_SECONDS = 30.0


def what_is_missing() -> str:
    """Why pages cannot be opened here, or nothing."""
    programs = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    if programs:
        return f"no {' and no '.join(programs)} here: apt-get install -y chromium chromium-driver"
    try:
        import selenium  # noqa: F401
    except ImportError:
        return "Selenium is not installed: pip install 'minixla[test]'"
    return ""


@contextlib.contextmanager
def started(profile: Path, size: tuple[int, int] = (1280, 800)) -> Iterator[Page]:
    """A browser of its own, which ends with the block.

    Args:
        profile: a new folder for what the browser keeps.
        size: of the window in pixels.
    """
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for flag in (
        *_FLAGS,
        _ALONE,
        f"--user-data-dir={profile}",
        f"--window-size={size[0]},{size[1]}",
    ):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = webdriver.ChromeService(str(shutil.which("chromedriver")))
    driver = webdriver.Chrome(options, service)
    try:
        yield Page(driver)
    finally:
        driver.quit()


class Page:
    """What a browser shows.

    Attributes:
        driver: Selenium's own, for all that is not here.
    """

    def __init__(self, driver: Chrome) -> None:
        self.driver = driver
        self._requests: list[str] = []

    def open(self, address: str | Path) -> Page:
        """Loads an address or a file; of requests and messages, only those from here on count."""
        self.driver.get("about:blank")
        self.messages()
        self.requests()
        self._requests.clear()
        self.driver.get(address.resolve().as_uri() if isinstance(address, Path) else address)
        return self

    def script(self, text: str, *arguments: Any) -> Any:
        """What a function of JavaScript with this body returns."""
        return self.driver.execute_script(text, *arguments)

    def find(self, selector: str) -> list[WebElement]:
        """The elements that a CSS selector names, now."""
        return self.driver.find_elements("css selector", selector)

    def texts(self, selector: str) -> list[str]:
        """What the elements show."""
        return [each.text for each in self.find(selector)]

    def press(self, element: WebElement) -> None:
        """Clicks on an element in the middle of what it scrolls in, where nothing covers it."""
        self.script("arguments[0].scrollIntoView({block: 'center'})", element)
        element.click()

    def wait(self, what: str | Callable[[], T], why: str = "", seconds: float = _SECONDS) -> Any:
        """Waits until a selector names something that is shown, or a function returns a true value.

        Args:
            what: the selector or the function.
            why: what is waited for, in words, for the message.
            seconds: how long at most.

        Returns:
            The first element that is shown, or what the function returned.

        Raises:
            AssertionError: it did not come; the message has the page's text and messages.
        """
        from selenium.common.exceptions import TimeoutException
        from selenium.webdriver.support.wait import WebDriverWait

        def shown() -> Any:
            return next((each for each in self.find(str(what)) if each.is_displayed()), None)

        found = what if callable(what) else shown
        try:
            return WebDriverWait(self.driver, seconds, 0.1).until(lambda _: found())
        except TimeoutException:
            text = self.script("return document.body.innerText")[:2000]
            problem = f"{why or what} did not come within {seconds:g} s"
            messages = "\n".join(self.messages())
            raise AssertionError(f"{problem}\npage:\n{text}\nmessages:\n{messages}") from None

    def messages(self) -> list[str]:
        """Warnings and errors of the page that were not asked for yet."""
        found = [entry for entry in self.driver.get_log("browser") if entry["level"] != "INFO"]
        return [entry["message"] for entry in found]

    def requests(self) -> list[str]:
        """The addresses that the page has asked for since it was opened."""
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                self._requests.append(message["params"]["request"]["url"])
        return self._requests

    def outside(self) -> list[str]:
        """Those of them that are of other machines."""
        parts = [(urlsplit(each), each) for each in self.requests()]
        asks = [(at, each) for at, each in parts if at.scheme in ("http", "https", "ws", "wss")]
        return [each for at, each in asks if at.hostname not in _LOCAL]

    def picture(self, path: Path, colors: int = 128) -> None:
        """Writes what is shown as a small .png of so many colors."""
        from PIL import Image

        image = Image.open(io.BytesIO(self.driver.get_screenshot_as_png())).convert("RGB")
        image.quantize(colors).save(path, optimize=True)


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing: tests are told by what the browser sees."""


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a server of a folder's files, on this machine, while the block runs."""
    handler = functools.partial(_Quiet, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
