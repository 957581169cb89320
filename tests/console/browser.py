"""A real browser, driven over a pipe by its own protocol; skipped where there is none."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_FLAGS = (
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-first-run",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--no-sandbox",  # root may run no other; the pages are ours
    "--force-prefers-reduced-motion",
)
SECONDS = 60.0


@dataclass
class Page:
    """One page, and the errors that its console has shown."""

    read: int
    write: int
    session: str = ""
    errors: list[str] = field(default_factory=list)
    _number: int = 0
    _rest: bytes = b""

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Ask the browser for something, and wait for the answer."""
        self._number += 1
        asked: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self.session:
            asked["sessionId"] = self.session
        os.write(self.write, json.dumps(asked).encode() + b"\0")
        while (told := self._next()).get("id") != self._number:
            self._note(told)
        assert "error" not in told, told["error"]
        return dict(told["result"])

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            found = os.read(self.read, 1 << 16)
            assert found, "the browser has ended"
            self._rest += found
        message, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(message))

    def _note(self, told: dict[str, Any]) -> None:
        match told.get("method"), told.get("params", {}):
            case "Runtime.exceptionThrown", {"exceptionDetails": details}:
                self.errors.append(str(details))
            case "Log.entryAdded", {"entry": {"level": "error"} as entry}:
                self.errors.append(str(entry))
            case "Runtime.consoleAPICalled", {"type": "error", "args": arguments}:
                self.errors.append(str(arguments))
            case _:
                pass

    def run(self, expression: str) -> Any:
        """Evaluate JavaScript on the page."""
        found = self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait(self, expression: str) -> Any:
        """Wait until an expression is true, and return it."""
        end = time.monotonic() + SECONDS
        while not (found := self.run(expression)):
            assert time.monotonic() < end, (expression, self.run("document.body.innerText"))
            time.sleep(0.05)
        return found

    def click(self, selector: str) -> None:
        """Click what is there, as soon as it is."""
        one = f"document.querySelector({json.dumps(selector)})"
        self.wait(f"!!{one}")
        self.run(
            f"{one}.dispatchEvent(new MouseEvent('click', {{bubbles: true, cancelable: true}}))"
        )

    def resize(self, width: int, height: int) -> None:
        """Give the page another size."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 500,
        )

    def picture(self, path: Path) -> None:
        """Keep a screenshot."""
        found = self.call("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(found["data"]))


def find_browser() -> str:
    """Return the program of a browser, or skip the test."""
    found = next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None:
        pytest.skip("no chromium is installed")
    return found


@contextmanager
def opened(url: str, directory: Path) -> Iterator[Page]:
    """Open a page in a browser of its own."""
    program = find_browser()
    to_browser, write = os.pipe()
    read, from_browser = os.pipe()
    line = f'exec "$0" "$@" 3<&{to_browser} 4>&{from_browser}'
    flags = [*_FLAGS, f"--user-data-dir={directory}", "about:blank"]
    process = subprocess.Popen(
        ["/bin/bash", "-c", line, program, *flags],
        pass_fds=(to_browser, from_browser),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(to_browser)
    os.close(from_browser)
    page = Page(read, write)
    try:
        target = page.call("Target.createTarget", url="about:blank")["targetId"]
        attached = page.call("Target.attachToTarget", targetId=target, flatten=True)
        page.session = attached["sessionId"]
        for domain in ("Runtime", "Log", "Page"):
            page.call(f"{domain}.enable")
        page.call("Page.navigate", url=url)
        yield page
    finally:
        page.session = ""
        with suppress(AssertionError, OSError):
            page.call("Browser.close")
        os.close(write)
        process.wait(timeout=30)
        os.close(read)
