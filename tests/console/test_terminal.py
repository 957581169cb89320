"""The console on a real database: keys, filters, actions and their refusals, restarts, notices."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from textual.pilot import Pilot

import pgtrickle
from pgtrickle import Picture, Trickle
from pgtrickle.catalog.console.picture import LATENCIES
from pgtrickle.console.actions import ACTIONS
from pgtrickle.console.panels import PANELS, Panel
from pgtrickle.console.terminal.app import Console
from pgtrickle.console.terminal.dialogs import help_text
from pgtrickle.console.watching import Watch
from pgtrickle.errors import PrivilegeError
from pgtrickle.settings import POSTGRES, Settings
from tests.catalog.databases import ordinary_role
from tests.console.scene import REFRESHES, STREAM_TABLES, still
from tests.console.screens import StillWatch, play, screen, typed, until
from tests.fakes.engine import NoEngine
from tests.fixtures.daemons import Daemon
from tests.fixtures.restartable import OwnServer
from tests.labs.lab import Lab

BARS = "▁▂▃▄▅▆▇█"


@pytest.fixture
def shop(shop: Lab) -> Lab:
    shop.create("ids", "SELECT id FROM t")
    return shop


@pytest.fixture
def console(shop: Lab) -> Iterator[Console]:
    watch = Watch(shop.trickle)
    yield Console(watch, shop.trickle, seconds=0.2)
    watch.close()


def test_what_is_seen_follows_the_database(shop: Lab, console: Console) -> None:
    async def act(pilot: Pilot[None]) -> None:
        await until(pilot, lambda text: "public.sums" in text and "full" in text)
        shop.run("UPDATE t SET v = v + 1 WHERE id = 1")
        shop.trickle.refresh_stream_table("sums")
        await until(pilot, lambda text: "diff" in text)
        shop.trickle.drop_stream_table("ids")
        await until(pilot, lambda text: "public.ids" not in text)

    play(console, act)


def test_the_sparkline_is_the_history(scene: Trickle) -> None:
    picture = still(scene, "revenue")
    app = Console(StillWatch(scene, picture), scene, seconds=3600)

    async def act(pilot: Pilot[None]) -> str:
        return await until(pilot, lambda text: "public.revenue" in text)

    [line] = [one for one in play(app, act).splitlines() if one.startswith("public.revenue")]
    drawn = [one for one in line if one in BARS]
    history = scene.refresh_history("revenue", limit=100)
    took = [(one.end_time - one.start_time).total_seconds() for one in history if one.end_time]
    latest = took[:LATENCIES][::-1]

    assert len(history) == REFRESHES
    assert drawn == [BARS[round(one / max(latest) * 7)] for one in latest]


def test_an_action_is_done_after_a_question(shop: Lab, console: Console) -> None:
    async def act(pilot: Pilot[None]) -> str:
        await until(pilot, lambda text: "public.sums" in text)
        shop.run("UPDATE t SET v = v + 1 WHERE id = 1")
        await pilot.press("end", "r")
        await until(pilot, lambda text: "Refresh public.sums now?" in text)
        await pilot.press("n", "r")
        await until(pilot, lambda text: "Refresh public.sums now?" in text)
        assert len(shop.trickle.refresh_history("sums")) == 1
        await pilot.press("y")
        return await until(pilot, lambda text: "DIFFERENTIAL +1 -1" in text)

    play(console, act, (120, 30))
    shop.check("sums")


def test_every_action_says_what_came_of_it(shop: Lab, console: Console) -> None:
    async def act(pilot: Pilot[None]) -> None:
        await until(pilot, lambda text: "public.sums" in text)
        for command, said in (
            ("full public.sums", "public.sums: FULL"),
            ("verify public.sums", "public.sums equals its query: 5 rows"),
            ("pause public.sums", "public.sums is held back"),
            ("resume public.sums", "public.sums is refreshed again"),
            ("cancel public.sums", "this console runs no refresh of public.sums"),
        ):
            await pilot.press(*typed(f":{command}"), "enter")
            await until(pilot, lambda text: "y: yes" in text)
            await pilot.press("y")
            await until(pilot, lambda text, said=said: said in text)  # type: ignore[misc]
        await pilot.press("4")
        await until(pilot, lambda text: "public.t" in text and "triggers" in text)
        for key, said in (("g", "are held back"), ("G", "are released")):
            await pilot.press(key)
            await until(pilot, lambda text: "y: yes" in text)
            await pilot.press("y")
            await until(pilot, lambda text, said=said: f"of public.t {said}" in text)  # type: ignore[misc]

    play(console, act, (120, 30))
    gates = shop.trickle.scheduler.bootstrap_gate_status()  # of earlier tests, too
    assert gates
    assert not any(one.gated for one in gates)


def test_filter_sort_and_commands(console: Console) -> None:
    async def act(pilot: Pilot[None]) -> None:
        await until(pilot, lambda text: "public.sums" in text and "public.ids" in text)
        await pilot.press(*typed("/SUM"))
        await until(pilot, lambda text: "public.sums" in text and "public.ids" not in text)
        await pilot.press("enter", "escape")
        await until(pilot, lambda text: "public.ids" in text)
        await pilot.press("s", "S")
        shown = await until(pilot, lambda text: "by stream table↓" in text)
        assert shown.index("public.sums") < shown.index("public.ids")
        await pilot.press(*typed(":table public.ids"), "enter")
        await until(pilot, lambda text: "query, as it was written" in text)
        await pilot.press(*typed(":every 5"), "enter")
        await until(pilot, lambda text: "asked every 5 s" in text)
        await pilot.press(*typed(":nonsense"), "enter")
        await until(pilot, lambda text: "there is no command nonsense" in text)
        await pilot.press("escape", "question_mark")
        await until(pilot, lambda text: "Panels, by key" in text)
        await pilot.press("escape", *typed(":q"), "enter")

    play(console, act, (120, 30))
    assert console.return_code == 0


class CountingWatch(StillWatch):
    """Notes what each look was for."""

    def __init__(self, trickle: Trickle, picture: Picture) -> None:
        super().__init__(trickle, picture)
        self.looks: list[tuple[str, int]] = []

    def look(self, panel: Panel, ids: Sequence[int] | None, subject: str | None) -> Picture:
        self.looks.append((panel.name, len(ids or ())))
        return super().look(panel, ids, subject)


def test_what_costs_more_is_asked_less_often(scene: Trickle) -> None:
    watch = CountingWatch(scene, still(scene, "revenue"))
    app = Console(watch, scene, seconds=0.02)

    async def act(pilot: Pilot[None]) -> None:
        await until(pilot, lambda text: "public.revenue" in text)
        for key, title in (("m", "the last hour"), ("n", "better")):
            await pilot.press(key)
            await until(pilot, lambda text, title=title: title in text)  # type: ignore[misc]
            await pilot.pause(0.3)
        await pilot.press("1")
        await pilot.pause(0.3)

    play(app, act)
    told = Counter(name for name, _ in watch.looks)
    assert told["metrics"] == 1
    assert told["overview"] > 4
    # The stream tables on the screen are known only when the first picture was drawn.
    assert [ids for name, ids in watch.looks if name == "planner"] == [0, len(STREAM_TABLES)]


def test_a_rehearsal_gives_the_stages_their_times(shop: Lab, console: Console) -> None:
    shop.run("UPDATE t SET v = v + 1 WHERE id = 1")
    shop.trickle.explain_stream_table("sums", with_analyze=True)

    async def act(pilot: Pilot[None]) -> str:
        await until(pilot, lambda text: "public.sums" in text)
        await pilot.press(*typed(":table public.sums"), "enter", "e")
        return await until(pilot, lambda text: "figures of the rehearsal of" in text)

    [line] = [one for one in play(console, act, (200, 60)).splitlines() if "to read" in one]
    assert line.strip().startswith("the rehearsal of")
    assert " rows, " in line


def test_relays_are_beside_the_copies_in_the_lake(shop: Lab, console: Console) -> None:
    shop.trickle.outbox.enable_outbox("sums")
    shop.trickle.relay.create_relay_pipeline("out", "sums", "file", {"path": "/tmp/out"})  # noqa: S108 - nothing is written

    async def act(pilot: Pilot[None]) -> str:
        await pilot.press("6")
        return await until(pilot, lambda text: "file out" in text)

    shown = play(console, act, (120, 30))
    assert "outbox, 0 readers" in shown
    assert "○ new" in shown


def test_the_mouse_opens_panels_and_tables(console: Console) -> None:
    async def act(pilot: Pilot[None]) -> None:
        await until(pilot, lambda text: "public.sums" in text)
        await pilot.click("#panels", offset=(14, 0))
        await until(pilot, lambda text: "stream tables above their sources" in text)
        await pilot.press("1")
        await until(pilot, lambda text: "latencies" in text and "public.sums" in text)
        await pilot.click("Grid", offset=(3, 2), times=2)
        await until(pilot, lambda text: "query, as it was written" in text)

    play(console, act, (120, 60))
    assert console._subject == "public.sums"


def test_a_smaller_window_leaves_columns_out(console: Console) -> None:
    async def act(pilot: Pilot[None]) -> None:
        await until(pilot, lambda text: "public.sums" in text and "schedule" in text)
        await pilot.resize_terminal(80, 24)
        shown = await until(pilot, lambda text: "schedule" not in text)
        assert max(map(len, shown.splitlines())) <= 80
        assert "latencies" in shown

    play(console, act, (200, 50))


def test_an_alert_is_seen_as_it_comes(shop: Lab, console: Console) -> None:
    console._watch.listen()
    hostile = json.dumps({"event": "stale_data", "name": "x\x1b[2J\ny"})

    async def act(pilot: Pilot[None]) -> str:
        await pilot.press("9")
        await until(pilot, lambda text: "this panel listens" in text)
        while "stale" not in screen(console):  # LISTEN takes its time
            shop.connection.execute("SELECT pg_notify('pg_trickle_alert', %s)", [hostile])
            await pilot.pause(0.2)
        return screen(console)

    assert "x\\x1b[2J\\ny" in play(console, act, (120, 30))


def test_a_reader_looks_and_is_told_why_he_may_do_no_more(
    shop: Lab,
) -> None:
    with ordinary_role(shop.trickle.dsn) as reader:
        shop.run(f"SELECT pgtrickle.grant_access('{reader}', 'reader')")
        settings = Settings(dsn=make_conninfo(shop.trickle.dsn, user=reader), engine=POSTGRES)
        with pgtrickle.connect(settings=settings, engine=NoEngine()) as guest:
            watch = Watch(guest)
            app = Console(watch, guest, seconds=0.2)

            async def act(pilot: Pilot[None]) -> str:
                await until(pilot, lambda text: "public.sums" in text and "full" in text)
                for panel in PANELS.values():
                    await pilot.press(panel.key)
                    shown = await until(pilot, lambda text: "asking" not in text)
                    assert "error ST" not in shown  # a column of requests is named error
                await pilot.press("1")
                await until(pilot, lambda text: "public.sums" in text)
                await pilot.press("end", "r")
                await until(pilot, lambda text: "y: yes" in text)
                await pilot.press("y")
                return await until(pilot, lambda text: "hint: " in text)

            shown = play(app, act, (120, 30))
            watch.close()
        shop.run(f"SELECT pgtrickle.revoke_access('{reader}')")

    assert f"error {PrivilegeError.code}" in shown
    assert "lacks the level operator" in shown


def test_a_restart_of_the_server_is_survived(own_server: OwnServer) -> None:
    settings = Settings(dsn=own_server.dsn, engine=POSTGRES, connection_timeout_seconds=5)
    with psycopg.connect(own_server.dsn, autocommit=True) as admin:
        admin.execute("CREATE TABLE t AS SELECT 1 AS id")
    with pgtrickle.connect(settings=settings, engine=NoEngine(), init=True) as trickle:
        trickle.create_stream_table("ids", "SELECT id FROM t")
        watch = Watch(trickle)
        watch.listen()
        app = Console(watch, trickle, seconds=0.2)

        async def act(pilot: Pilot[None]) -> None:
            await until(pilot, lambda text: "public.ids" in text)
            own_server.stop("fast")
            shown = await until(pilot, lambda text: "no answer since" in text)
            assert "public.ids" in shown  # the last picture stays
            own_server.start()
            await until(pilot, lambda text: "no answer since" not in text)
            trickle.create_stream_table("more", "SELECT id FROM t")
            await until(pilot, lambda text: "public.more" in text)

        play(app, act)
        watch.close()


def test_a_restart_of_the_daemon_is_seen(
    shop: Lab, console: Console, start: Callable[..., Daemon]
) -> None:
    def begin() -> Daemon:
        return start(shop.trickle.dsn, "--health-port", "0", PGTRICKLE_ENGINE=POSTGRES)

    async def act(pilot: Pilot[None]) -> None:
        await until(pilot, lambda text: "no daemon" in text)
        daemon = begin()
        await until(pilot, lambda text: "● daemon" in text)
        assert daemon.stop() == 0
        await until(pilot, lambda text: "no daemon" in text)
        begin()
        shown = await until(pilot, lambda text: "● daemon" in text)
        assert "public.sums" in shown

    play(console, act)


def test_the_help_has_every_panel_and_action() -> None:
    text = help_text()

    for name in (*PANELS, *(one.name for one in ACTIONS)):
        assert name in text


def test_no_key_is_taken_twice() -> None:
    keys = [one.key for one in PANELS.values()] + sorted({one.key for one in ACTIONS})

    assert len(keys) == len(set(keys))


def test_nothing_but_the_console_imports_textual() -> None:
    code = (
        "import sys, pgtrickle.cli.main, pgtrickle.cli.insight.top, pgtrickle.client.trickle;"
        " print('textual' in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)

    assert shown.stdout.strip() == "False"


def test_the_log_file_is_read_at_its_end(shop: Lab, tmp_path: Path) -> None:
    path = tmp_path / "daemon.log"
    path.write_bytes(b"first\n" + b"x" * 100_000 + b"\nlast but one\nlast \xff\x1b[2J\n")

    assert Watch(shop.trickle, path).log()[-2:] == ("last but one", "last \ufffd\x1b[2J")
    assert Watch(shop.trickle, tmp_path / "none").log() == (
        "it cannot be read: No such file or directory",
    )
