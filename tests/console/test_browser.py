"""The page in a real browser, as people use it; and pictures of it, compared with kept ones.

One browser serves them all.  ``pytest tests/console/test_browser.py --update`` keeps the pictures
anew.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, ImageDraw
from playwright.sync_api import Browser, Page, expect

from pgtrickle import Picture, Trickle
from tests.console import pictures
from tests.console.browser import Scheme, go, need_fonts, opened, row, started
from tests.console.pages import Site, served
from tests.console.scene import still
from tests.console.screens import StillWatch
from tests.labs.lab import Lab

PHONE = (390, 800)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with started() as made:
        yield made


@pytest.fixture
def shop(shop: Lab) -> Lab:
    shop.create("large", "SELECT k FROM sums WHERE v > 100")
    return shop


def change(shop: Lab, number: int) -> None:
    shop.run(f"UPDATE t SET v = v + 1 WHERE id = {number}")
    shop.refresh("sums")


def test_people_use_the_page(browser: Browser, site: Site, shop: Lab) -> None:
    with opened(browser, site.url) as page:
        expect(row(page, "public.sums")).to_be_visible()
        assert "token" not in page.url

        go(page, "graph")
        expect(page.locator(".node")).to_have_count(3)
        change(shop, 1)
        pulsed = page.locator('.node[data-name="public.sums"]')
        expect(pulsed).to_have_attribute("data-pulses", "1")

        pulsed.click()
        expect(page.locator("#chart canvas")).to_be_visible()
        page.click("[data-action=refresh]")
        page.click("#question button[value=yes]")
        expect(page.locator("#said")).to_contain_text("NO_DATA")

        go(page, "overview")
        page.fill("#sql", "SELECT id,\n nonsense FROM t")
        page.click("#validate")
        expect(page.locator(".wrong")).to_have_text("nonsense")


def test_people_look_closer(browser: Browser, site: Site, shop: Lab) -> None:
    shop.trickle.outbox.enable_outbox("sums")
    change(shop, 5)
    with opened(browser, site.url) as page:
        row(page, "public.sums").dblclick()
        for name in ("rows", "lag", "cost", "latency"):
            page.click(f"[data-measure={name}]")
            chart = page.locator(f'#chart[aria-label^="{name}"]')
            expect(chart.locator(".u-legend")).to_contain_text(name)
        expect(chart).to_have_attribute("aria-label", re.compile(r"; .* ms, predicted \d+ ms$"))
        chart.focus()
        page.keyboard.press("ArrowLeft")  # to the latest
        page.keyboard.press("ArrowLeft")
        expect(chart.locator(".u-legend")).to_contain_text("DIFFERENTIAL, 2 rows")

        page.click("#buttons button:last-child")
        expect(page.locator("#flow .figures").first).to_contain_text("2 rows")

        page.locator("#flow .node", has_text="public.t").click()
        expect(page.locator("#plan")).to_contain_text("read public.t")
        expect(page.locator("#plan")).not_to_contain_text("missing indexes")
        page.locator("#flow .node", has_text="stage").focus()
        page.keyboard.press("Enter")
        expect(page.locator("#plan")).to_contain_text("state pgtrickle_state")
        page.locator("#flow .node").last.click()
        expect(page.locator("#plan")).to_contain_text("missing indexes")

        page.click("#follow")
        expect(page.locator("#follows")).to_contain_text("outbox")
        seen = page.locator("#changes li").count()
        change(shop, 6)
        expect(page.locator("#changes li")).to_have_count(seen + 1)

        go(page, "overview")
        page.fill("#sql", "SELECT id FROM t")
        page.click("#validate")
        expect(page.locator(".estimate")).to_contain_text("rows")
        page.fill("#creation input", "public.copy")
        page.click("#creation button")
        page.click("#question button[value=yes]")
        expect(page.locator("#said")).to_contain_text("is created with 50 rows")


def test_the_keyboard_is_enough(browser: Browser, site: Site, shop: Lab) -> None:
    with opened(browser, site.url) as page:
        expect(row(page, "public.sums")).to_be_visible()
        page.keyboard.press("Tab")
        expect(page.locator(".skip")).to_be_focused()
        page.keyboard.press("Tab")
        expect(page.locator("[data-panel=overview]")).to_be_focused()
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        expect(page.locator("#title")).to_have_text("graph")

        page.keyboard.press("Escape")
        expect(page.locator("#title")).to_have_text("overview")
        page.keyboard.press("/")
        page.keyboard.type("sums")
        expect(row(page, "public.large")).to_be_hidden()
        row(page, "public.sums").focus()
        page.keyboard.press(" ")
        page.keyboard.press("Enter")
        expect(page.locator("#title")).to_have_text("public.sums")
        page.locator("[data-action=refresh]").focus()
        page.keyboard.press("Enter")
        expect(page.locator("#question button[value=no]")).to_be_focused()
        page.keyboard.press("Escape")
        expect(page.locator("#question")).to_be_hidden()
        page.keyboard.press("m")
        expect(page.locator("#title")).to_have_text("metrics")


@pytest.fixture(scope="session")
def picture(scene: Trickle) -> Picture:
    return still(scene, "revenue")


@pytest.fixture
def fixed(scene: Trickle, picture: Picture) -> Iterator[Site]:
    """Serve a page on which nothing ever changes."""
    with served(scene, watch=StillWatch(scene, picture)) as made:
        yield made


def violations(page: Page, rules: list[str] | None = None) -> list[Any]:
    """Let axe look at a page."""
    only = "{}" if rules is None else f"{{runOnly: {rules}}}"
    found = page.evaluate(f"axe.run({only}).then((one) => one.violations)")
    return [(one["id"], [node["html"] for node in one["nodes"]][:3]) for one in found]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everybody_can_use_every_panel_on_a_phone(
    browser: Browser, fixed: Site, scheme: Scheme
) -> None:
    """By axe: everything in light, contrasts in dark; nothing is wider than a phone."""
    rules = None if scheme == "light" else ["color-contrast"]
    axe = resources.files("axe_core_python").joinpath("axe.min.js").read_text()
    with opened(browser, fixed.url, size=PHONE, scheme=scheme) as page:
        expect(row(page, "public.revenue")).to_be_visible()
        page.evaluate(f"{axe}; 0")
        row(page, "public.revenue").click()
        for panel in ("overview", "graph", "table", "sinks", "metrics"):
            go(page, panel)
            if panel == "table":
                page.click("#buttons button:last-child")
                expect(page.locator("#flow .node")).not_to_have_count(0)
            assert violations(page, rules) == [], panel
            assert page.evaluate("document.scrollingElement.scrollWidth") <= PHONE[0], panel


# Asks for the places of a graph: how long no other script could run meanwhile, and the answer.
_ARRANGE = """async ([names, edges]) => {
  const { arrange } = await import("/static/making.js");
  const nodes = names.map((key) => ({ key, width: 200, height: 40 }));
  let longest = 0, last = performance.now(), goes = true;
  (function tick() {
    longest = Math.max(longest, performance.now() - last);
    last = performance.now();
    if (goes) setTimeout(tick, 5);
  })();
  const { at, lines } = await arrange(nodes, edges, 60);
  goes = false;
  return { longest, at: Object.fromEntries(at), lines };
}"""


def test_large_graphs_and_circles_are_placed_beside_the_page(browser: Browser, fixed: Site) -> None:
    circle = ["a", "b", "c", "alone"], [["a", "b"], ["b", "c"], ["c", "a"]]
    names = [f"public.t{number}" for number in range(1000)]
    edges = [[names[one // 3], names[one]] for one in range(100, 1000)]
    edges += [[names[one * 7 % 300], names[one]] for one in range(500, 900)]
    with opened(browser, fixed.url) as page:
        found = page.evaluate(_ARRANGE, circle)
        places = {name: tuple(at) for name, at in found["at"].items()}
        assert len(set(places.values())) == 4
        assert [line["path"].count("NaN") for line in found["lines"]] == [0, 0, 0]

        large = page.evaluate(_ARRANGE, [names, edges])
        chain = names[:60], [[names[one // 3], names[one]] for one in range(1, 60)]
        few, turned = (page.evaluate(_ARRANGE, each) for each in (chain, [c[::-1] for c in chain]))

    assert few["at"] == turned["at"]
    assert len({tuple(at) for at in large["at"].values()}) == 1000
    column = {name: at[0] for name, at in large["at"].items()}
    assert all(column[source] < column[reader] for source, reader in edges)
    assert large["longest"] < 500  # ms; on the page it would be all of the time


@pytest.fixture
def update(request: pytest.FixtureRequest, scene: Trickle) -> bool:
    need_fonts()
    if not scene.version().server.startswith("18"):
        pytest.skip("queries are written as PostgreSQL 18 writes them")
    return bool(request.config.getoption("--update"))


def test_pages_look_as_they_did(browser: Browser, fixed: Site, update: bool) -> None:  # noqa: FBT001
    with opened(browser, fixed.url, still=True) as page:
        expect(row(page, "public.revenue")).to_be_visible()
        pictures.check("overview", page.screenshot(), update=update)
        go(page, "graph")
        expect(page.locator('.node[data-name="public.revenue"]')).to_be_visible()
        # Nothing in a name turns the direction of what is read.
        expect(page.locator("#graph")).to_contain_text("Odd \\u202ename")
        pictures.check("graph", page.screenshot(), update=update)
        row(page, "public.revenue").click()
        go(page, "table")
        expect(page.locator("#chart canvas")).to_be_visible()
        pictures.check("table", page.screenshot(), update=update)
        page.click("#buttons button:last-child")
        expect(page.locator("#flow .figures").first).to_contain_text("2 rows")
        pictures.check("plan", page.locator("#flow").screenshot(), update=update)


def test_the_dark_page_and_the_phone_look_as_they_did(
    browser: Browser,
    fixed: Site,
    update: bool,  # noqa: FBT001
) -> None:
    with opened(browser, fixed.url, scheme="dark", still=True) as page:
        expect(row(page, "public.revenue")).to_be_visible()
        go(page, "sinks")
        pictures.check("sinks-dark", page.screenshot(), update=update)
    with opened(browser, fixed.url, size=PHONE, still=True) as page:
        expect(row(page, "public.revenue")).to_be_visible()
        pictures.check("phone", page.screenshot(), update=update)


def test_a_picture_that_differs_is_shown_with_the_kept_one(tmp_path: Path) -> None:
    kept, failed = tmp_path / "one.webp", tmp_path / "failed"
    same = Image.new("RGB", (400, 300), "white")
    same.save(kept, lossless=True)
    shaded, moved = same.copy(), same.copy()
    ImageDraw.Draw(shaded).text((10, 10), "another shade", fill=(225, 225, 225))
    ImageDraw.Draw(moved).text((10, 10), "a word", fill="black")

    assert pictures.difference(same, kept, failed) == ""
    assert pictures.difference(shaded, kept, failed) == ""
    assert not failed.exists()
    assert "differ by more than" in pictures.difference(moved, kept, failed)
    assert {one.name for one in failed.iterdir()} == {
        "one-found.png",
        "one-kept.png",
        "one-difference.png",
    }
    assert "had (400, 300)" in pictures.difference(same.resize((300, 300)), kept, failed)
    assert "was never kept" in pictures.difference(same, tmp_path / "none.webp", failed)


def test_the_message_names_the_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "KEPT", tmp_path)
    drawn = io.BytesIO()
    Image.new("RGB", (40, 30), "white").save(drawn, "png")
    pictures.check("one", drawn.getvalue(), update=True)
    black = io.BytesIO()
    Image.new("RGB", (40, 30), "black").save(black, "png")

    pictures.check("one", drawn.getvalue(), update=False)
    with pytest.raises(pytest.fail.Exception, match=r"looks different.*--update"):
        pictures.check("one", black.getvalue(), update=False, failed=tmp_path / "failed")
