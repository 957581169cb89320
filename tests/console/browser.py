"""A real browser, driven by playwright; skipped where there is none.

Whoever uses it does so in one module: its driver has an event loop of its own in this thread, and
the terminal of ``pgtrickle top`` could not start one beside it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import (
    Browser,
    ConsoleMessage,
    Locator,
    Page,
    Request,
    expect,
    sync_playwright,
)

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_FONTS = Path("/usr/share/fonts/truetype/dejavu")
_FONT_CONFIG = Path(__file__).parent / "fonts.conf"
# What depends on the machine is left out of what is drawn.
_FLAGS = (
    "--disable-gpu",
    "--disable-lcd-text",
    "--font-render-hinting=none",
    "--force-color-profile=srgb",
    "--disable-skia-runtime-opts",
)
_SECONDS = 30.0
Scheme = Literal["light", "dark"]

expect.set_options(timeout=_SECONDS * 1000)


def find_program() -> str | None:
    """Return the program of a browser, if one is installed."""
    return next(filter(None, map(shutil.which, _NAMES)), None)


@contextmanager
def started() -> Iterator[Browser]:
    """Start a browser, or skip the test."""
    program = find_program()
    if program is None:
        pytest.skip("no chromium is installed")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=program,
            args=list(_FLAGS),
            env={**os.environ, "FONTCONFIG_FILE": str(_FONT_CONFIG)},
        )
        try:
            yield browser
        finally:
            browser.close()


def need_fonts() -> None:
    """Skip the test where texts would be drawn with other fonts than those of the pictures."""
    if not (_FONTS / "DejaVuSans.ttf").exists():
        pytest.skip(f"the fonts DejaVu are not in {_FONTS}")


@contextmanager
def opened(
    browser: Browser,
    url: str,
    *,
    size: tuple[int, int] = (1200, 800),
    scheme: Scheme = "light",
    still: bool = False,
) -> Iterator[Page]:
    """Open a page of its own.  ``still``: its clock stands.

    Nothing may go wrong in its console, and nothing may be asked of another address.
    """
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]},
        color_scheme=scheme,
        reduced_motion="reduce",
        locale="en-US",
        timezone_id="UTC",
    )
    context.set_default_timeout(_SECONDS * 1000)
    errors: list[str] = []

    def note(message: ConsoleMessage) -> None:
        if message.type == "error":
            errors.append(message.text)

    def visit(request: Request) -> None:
        if urlsplit(request.url).netloc != urlsplit(url).netloc:
            errors.append(f"{request.url} is elsewhere")

    page = context.new_page()
    page.on("console", note)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", visit)
    if still:
        page.clock.install(time="2100-01-01T12:00:00Z")
        page.clock.pause_at("2100-01-01T12:00:01Z")
    page.goto(url)
    try:
        yield page
        assert errors == []
    finally:
        context.close()


def row(page: Page, key: str) -> Locator:
    """Return the first line of a panel that is about something."""
    return page.locator(f'tr[data-key="{key}"]').first


def go(page: Page, panel: str) -> None:
    """Open a panel by its button, and wait for its lines."""
    page.click(f"[data-panel={panel}]")
    expect(page.locator("#sheet tbody tr")).not_to_have_count(0)
