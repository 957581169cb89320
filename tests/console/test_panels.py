"""Every panel at three sizes, as text: ``pytest --update`` rewrites them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from textual.pilot import Pilot

from pgtrickle import Notice, Picture, Trickle
from pgtrickle.console.panels import PANELS
from pgtrickle.console.terminal.app import Console
from tests.console.scene import still
from tests.console.screens import StillWatch, play, until

GOLDEN = Path(__file__).parent / "golden"
SIZES = ((80, 24), (120, 40), (200, 60))
HEARD = datetime(2100, 1, 1, 11, 59, 58, tzinfo=UTC)
NOTICES = (
    Notice(
        "pg_trickle_refresh",
        HEARD,
        {
            "name": "public.revenue",
            "action": "DIFFERENTIAL",
            "inserted_count": 1,
            "deleted_count": 1,
        },
    ),
    Notice("pg_trickle_alert", HEARD, {"event": "stale_data", "name": "public.kinds", "age_s": 45}),
)


@pytest.fixture(scope="session")
def picture(scene: Trickle) -> Picture:
    found = still(scene, "revenue")
    if not scene.version().server.startswith("18"):
        pytest.skip("queries are written as PostgreSQL 18 writes them")
    return found


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("name", PANELS)
def test_panel(
    scene: Trickle,
    picture: Picture,
    name: str,
    size: tuple[int, int],
    request: pytest.FixtureRequest,
) -> None:
    async def look(pilot: Pilot[None]) -> str:
        if name == "table":
            await pilot.press("e")
            await until(pilot, lambda text: "the plan is at the end" in text)
        return await until(pilot, lambda text: "asking" not in text)

    app = Console(
        StillWatch(scene, picture, NOTICES), scene, seconds=3600, subject="public.revenue"
    )
    app._panel = PANELS[name]
    found = play(app, look, size) + "\n"

    path = GOLDEN / f"{name}-{size[0]}x{size[1]}.txt"
    if request.config.getoption("--update"):
        path.write_text(found)
    assert found == path.read_text()
