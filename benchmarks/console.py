"""What the consoles cost a server with many stream tables, and how soon a commit is seen.

    python -m benchmarks.console [--tables N] [--viewers N] [--seconds N] [--notices N]

It makes a database with stream tables and a history, and then measures

* a picture of the overview: statements, bytes, processor time of client and server;
* ``pgtrickle top`` in a real terminal of 120 by 40: the time to the first paint, the bytes that it
  writes to the terminal, and the processor time of it and of its sessions on the server;
* ``pgtrickle ui`` with some viewers of the graph: the same, and the time from a commit to the event
  that makes the graph of the page pulse;
* the page in a browser, where chromium is installed: the time to its first paint and until its
  first panel can be used, and the bytes of its files.

PostgreSQL computes the refreshes; nothing of the loading is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import pty
import re
import select
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from urllib.parse import urlsplit

import psycopg

import pgtrickle
from benchmarks.report.tables import print_tables
from benchmarks.results import describe_run, write_results
from benchmarks.say import say
from pgtrickle import PicturePart
from pgtrickle.catalog.console.read import Wanted, take_picture
from pgtrickle.console.panels import PANELS
from pgtrickle.embedded.server import start_embedded
from pgtrickle.settings import POSTGRES, Settings
from tests.console.browser import find_program, started
from tests.fakes.engine import NoEngine

_PER_SOURCE = 10  # stream tables
_OPENED = 5  # times that the page is opened in a browser
_ON_SCREEN = 38  # lines of a terminal of 40
_HISTORY = """
    INSERT INTO pgtrickle.pgt_refresh_history
           (pgt_id, start_time, end_time, action, status, reason, rows_inserted, rows_deleted,
            delta_row_count, reads, timings, initiated_by)
    SELECT s.pgt_id, now() - n * interval '10 s', now() - n * interval '10 s' + interval '20 ms',
           'DIFFERENTIAL', 'COMPLETED', '', 1, 0, 1, '[]', '{}', 'SCHEDULER'
      FROM pgtrickle.pgt_stream_tables AS s, generate_series(1, 30) AS n
"""
_TICK = os.sysconf("SC_CLK_TCK")
_COLUMNS = ["what", "figure", "unit"]
Row = list[object]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the measurements and print them as Markdown; 1 if a goal is missed."""
    argv = sys.argv[1:] if argv is None else argv
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--tables", type=int, default=1000)
    parser.add_argument("--viewers", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--notices", type=int, default=50)
    parser.add_argument("--home", type=Path, help="keep the server here, loaded once")
    parser.add_argument("--output", type=Path, help="write the results to this JSON file")
    given = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o711)
        with start_embedded(given.home or Path(directory) / "home") as server:
            _load(server.dsn, given.tables)
            rows = list(_measure(server.dsn, given, Path(directory)))
            with psycopg.connect(server.dsn) as connection:
                results = describe_run(
                    "benchmarks.console",
                    argv,
                    connection,
                    title=f"The consoles on {given.tables:,} stream tables",
                    tables=[{"columns": _COLUMNS, "rows": rows}],
                    notes=["Both ask the database once a second."],
                )
    print_tables(results)
    if given.output:
        write_results(given.output, results)
    figures = {str(what): float(str(figure)) for what, figure, _ in rows}
    core = figures["top: processor, with its sessions"]
    return 0 if core < 3 and figures["ui: from a commit to the pulse, p50"] < 500 else 1


def _load(dsn: str, tables: int) -> None:
    settings = Settings(dsn=dsn, engine=POSTGRES)
    with (
        psycopg.connect(dsn, autocommit=True) as user,
        pgtrickle.connect(settings=settings, engine=NoEngine(), init=True) as trickle,
    ):
        known = len(trickle.list_stream_tables())
        say(f"loading {tables - known:,} stream tables")
        for number in range(known, tables):
            source = f"source_{number // _PER_SOURCE}"
            user.execute(
                f"CREATE TABLE IF NOT EXISTS {source} (id int PRIMARY KEY, v int)".encode()
            )
            query = f"SELECT id, v FROM {source} WHERE v > {number}"
            trickle.create_stream_table(f"st_{number:05}", query, schedule="1m")
        user.execute("TRUNCATE pgtrickle.pgt_refresh_history")
        user.execute(_HISTORY)
        user.execute("ANALYZE")


def _measure(dsn: str, given: argparse.Namespace, directory: Path) -> Iterator[Row]:
    say("a picture")
    yield from _picture(dsn, directory / "trace")
    say("the terminal")
    yield from _terminal(dsn, given.seconds)
    say("the page")
    yield from _page(dsn, given)


def _picture(dsn: str, trace: Path) -> Iterator[Row]:
    rounds = 20
    settings = Settings(dsn=dsn, engine=POSTGRES)
    with (
        pgtrickle.connect(settings=settings, engine=NoEngine()) as trickle,
        trickle._runtime.connection() as connection,  # noqa: SLF001 - our own
    ):
        tables = trickle.insight.picture([PicturePart.TABLES]).tables or ()
        ids = [one.id for one in tables[:_ON_SCREEN]]
        wanted = Wanted(PANELS["overview"].parts, ids)
        with trace.open("wb") as file:
            connection.pgconn.trace(file.fileno())
            take_picture(connection, wanted)
            connection.pgconn.untrace()
        told = trace.read_text(errors="replace")
        yield ["overview: statements", len(re.findall(r"\tF\t\d+\t(?:Query|Execute)\t", told)), ""]
        sizes = (int(one) for one in re.findall(r"\tB\t(\d+)\t", told))
        yield ["overview: bytes from the server", sum(sizes), "bytes"]
        own, theirs = time.process_time(), _processor(connection.info.backend_pid)
        for _ in range(rounds):
            take_picture(connection, wanted)
        own = time.process_time() - own
        theirs = _processor(connection.info.backend_pid) - theirs
        yield ["overview: processor of the client", round(own / rounds * 1000, 1), "ms"]
        yield ["overview: processor of the server", round(theirs / rounds * 1000, 1), "ms"]


def _terminal(dsn: str, seconds: float) -> Iterator[Row]:
    mine, theirs = pty.openpty()
    os.set_blocking(mine, False)
    environment = {**os.environ, **_environment(dsn), "TERM": "xterm-256color"}
    environment |= {"COLUMNS": "120", "LINES": "40"}
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "pgtrickle", "--quiet", "top"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        _drain(mine, 60, until=b"st_00000")
        yield ["top: first paint", round((time.monotonic() - began) * 1000), "ms"]
        _drain(mine, 3)
        with _watched(dsn, process.pid) as used:
            written = _drain(mine, seconds)
        yield [
            "top: processor, with its sessions",
            round(used[0] / seconds * 100, 2),
            "% of a core",
        ]
        yield ["top: of it on the server", round(used[1] / seconds * 100, 2), "% of a core"]
        yield ["top: bytes to the terminal", round(written / seconds), "bytes/s"]
    finally:
        process.terminate()
        process.wait(timeout=30)
        os.close(mine)


def _drain(terminal: int, seconds: float, until: bytes = b"") -> int:
    """Read what is written for a while, or until something is; return how many bytes."""
    end, count, last = time.monotonic() + seconds, 0, b""
    while (left := end - time.monotonic()) > 0:
        if select.select([terminal], [], [], left)[0]:
            try:
                found = os.read(terminal, 1 << 16)
            except OSError as error:  # it has ended
                raise SystemExit(last.decode(errors="replace")) from error
            count += len(found)
            last = last[-100:] + found
            if until and until in last:
                return count
    if until:
        raise SystemExit(f"{until!r} was not painted")
    return count


def _page(dsn: str, given: argparse.Namespace) -> Iterator[Row]:
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "pgtrickle", "--quiet", "ui", "--port", "0", "--json"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **_environment(dsn)},
    )
    try:
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        url = urlsplit(json.loads(process.stdout.readline())["url"])
        token = url.query.partition("token=")[2]
        viewers = [_Viewer(url.port or 0, token) for _ in range(given.viewers)]
        for one in viewers:
            one.seen.wait(60)
        yield ["ui: first panel", round((time.monotonic() - began) * 1000), "ms"]
        yield ["ui: bytes of the first panel", viewers[0].bytes, "bytes"]
        time.sleep(2)
        before = viewers[0].bytes
        with _watched(dsn, process.pid) as used:
            time.sleep(given.seconds)
        what = f"ui: processor with {given.viewers} viewers"
        yield [what, round(used[0] / given.seconds * 100, 2), "% of a core"]
        yield ["ui: of it on the server", round(used[1] / given.seconds * 100, 2), "% of a core"]
        sent = (viewers[0].bytes - before) / given.seconds
        yield ["ui: bytes to each viewer", round(sent), "bytes/s"]
        yield from _browser(f"http://127.0.0.1:{url.port}/login?token={token}")
        times = sorted(_pulses(dsn, viewers[0], given.notices))
        yield ["ui: from a commit to the pulse, p50", round(statistics.median(times), 1), "ms"]
        yield ["ui: from a commit to the pulse, most", round(times[-1], 1), "ms"]
    finally:
        process.terminate()
        process.wait(timeout=30)


# Notes when the first line of a panel is there to be clicked.
_OBSERVE = """
    new MutationObserver((_, observer) => {
      if (!document.querySelector("tr[data-key]")) return;
      window.usable = performance.now();
      observer.disconnect();
    }).observe(document, { childList: true, subtree: true });
"""
_TIMES = """() => [
    performance.getEntriesByName("first-contentful-paint")[0].startTime, window.usable,
    [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
      .reduce((sum, one) => sum + one.transferSize, 0)]
"""


def _browser(url: str) -> Iterator[Row]:
    """Open the page several times, each in a browser that knows nothing of it."""
    if find_program() is None:
        say("no chromium is installed: the page is not opened")
        return
    found = []
    with started() as browser:
        for _ in range(_OPENED):
            context = browser.new_context(viewport={"width": 1200, "height": 800})
            context.add_init_script(_OBSERVE)
            page = context.new_page()
            page.goto(url)
            page.wait_for_selector("tr[data-key]")
            found.append(page.evaluate(_TIMES))
            context.close()
    painted, usable, sent = (statistics.median(one) for one in zip(*found, strict=True))
    yield ["page: first paint", round(painted), "ms"]
    yield ["page: first panel can be used", round(usable), "ms"]
    yield ["page: bytes of its files", round(sent), "bytes"]


class _Viewer:
    """Follows the graph, as a page does."""

    def __init__(self, port: int, token: str) -> None:
        self.bytes = 0
        self.seen = threading.Event()
        self.heard: dict[str, float] = {}
        self._token = token
        connection = HTTPConnection("127.0.0.1", port, timeout=60)
        headers = {"Authorization": f"Bearer {token}"}
        connection.request("GET", "/events?panel=graph", headers=headers)
        response = connection.getresponse()
        threading.Thread(target=self._follow, args=[connection, response], daemon=True).start()

    def _follow(self, _: HTTPConnection, response: HTTPResponse) -> None:
        while line := response.readline():
            self.bytes += len(line)
            if line.startswith(b"event: panel"):
                self.bytes += len(response.readline())
                self.seen.set()
            if line.startswith(b"event: notice"):
                told = json.loads(response.readline().partition(b" ")[2])
                self.heard[told["payload"].get("mark", "")] = time.monotonic()


def _pulses(dsn: str, viewer: _Viewer, count: int) -> Iterator[float]:
    """Notify as a refresh does, by the commit of a transaction, and time until it is heard."""
    with psycopg.connect(dsn) as connection:
        for number in range(count):
            told = {"name": "public.st_00000", "action": "DIFFERENTIAL", "mark": str(number)}
            notify = "SELECT pg_notify('pg_trickle_refresh', %s)"
            connection.execute(notify, [json.dumps(told)])
            began = time.monotonic()
            connection.commit()
            while str(number) not in viewer.heard:
                time.sleep(0.0005)
                if time.monotonic() > began + 30:
                    raise SystemExit("a notice was not heard")
            yield (viewer.heard[str(number)] - began) * 1000
            time.sleep(0.13)


@contextmanager
def _watched(dsn: str, pid: int) -> Iterator[list[float]]:
    """Yield a list that gets the processor seconds of a block: of all, and of the server alone."""
    used: list[float] = []
    with psycopg.connect(dsn, autocommit=True) as connection:
        own = connection.info.backend_pid
        sessions = [
            one
            for (one,) in connection.execute(
                "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
                " AND backend_type = 'client backend'"
            )
            if one != own
        ]
        before = _processor(pid), sum(map(_processor, sessions))
        yield used
        after = _processor(pid), sum(map(_processor, sessions))
    used += [sum(after) - sum(before), after[1] - before[1]]


def _processor(pid: int) -> float:
    found = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(found[11]) + int(found[12])) / _TICK


def _environment(dsn: str) -> dict[str, str]:
    return {"PGTRICKLE_DSN": dsn, "PGTRICKLE_ENGINE": POSTGRES}


if __name__ == "__main__":
    sys.exit(main())
