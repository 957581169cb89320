"""Stream tables with outboxes, random writes, and relays beside them."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pgtrickle.model.streams.relay import RelayStatus
from tests.fixtures.daemons import await_
from tests.labs.lab import Lab

TABLES = (
    "CREATE TYPE mood AS ENUM ('sad', 'ok')",
    "CREATE TABLE t (id int PRIMARY KEY, k int, v numeric, w float8, note text, more jsonb,"
    " list int[], at timestamptz, m mood)",
    "INSERT INTO t SELECT i, nullif(i % 4, 3), i % 7, i / 3.0, nullif('n' || i % 5, 'n2'),"
    " jsonb_build_object('a', i), ARRAY[i, NULL], '2026-01-01 12:00:00.5+02', 'ok'"
    " FROM generate_series(1, 30) AS i",
)
QUERIES = {
    "keyed": "SELECT id, k, v + 0.50 AS v, w, note, more, list, at, m FROM t WHERE v > 1",
    "groups": "SELECT k, count(*) AS n, sum(v) AS total, max(w) AS w FROM t GROUP BY k",
    "duplicates": "SELECT k, v, note FROM t",
}


def open_shop(lab: Lab, *names: str) -> None:
    """Create stream tables with outboxes."""
    lab.run(*TABLES)
    for name in names:
        lab.create(name, QUERIES[name])
        lab.trickle.outbox.enable_outbox(name, inline_threshold_rows=5)


def write(lab: Lab, draw: random.Random, number: int) -> None:
    """Change some rows."""
    some = draw.randrange(20)
    lab.run(
        draw.choice(
            [
                f"UPDATE t SET v = v + {some} / 10.0 WHERE id % 5 = {some % 5}",
                f"UPDATE t SET k = nullif((coalesce(k, 3) + 1) % 4, 3) WHERE id % 7 = {some % 7}",
                f"UPDATE t SET note = E'a\\nb\"%', w = '-0' WHERE id % 6 = {some % 6}",
                f"DELETE FROM t WHERE id % 11 = {some % 11}",
                f"UPDATE t SET id = id + 1000 WHERE id % 9 = {some % 9}",
                f"UPDATE t SET more = '[\"x\", {some}]', list = NULL WHERE id % 3 = {some % 3}",
            ]
        ),
        f"INSERT INTO t VALUES ({5000 + number}, {some % 4}, {some}, 'NaN', 'new', NULL, NULL,"
        " 'infinity', 'sad')",
    )


def status(lab: Lab, name: str = "p") -> RelayStatus:
    """Return what a pipeline does."""
    [found] = lab.trickle.relay.relay_status(name)
    return found


def deliver(lab: Lab, file: Path | None = None) -> None:
    """Deliver everything."""
    lab.trickle.relay.run_relay(file, once=True)


@contextmanager
def relaying(lab: Lab, file: Path | None = None) -> Iterator[Callable[[], None]]:
    """Run a relay in a thread; yield what waits until everything is delivered."""
    stop = threading.Event()

    def run() -> None:
        lab.trickle.relay.run_relay(file, stop=stop)

    thread = threading.Thread(target=run)
    thread.start()

    def wait() -> None:
        await_(lambda: all(one.lag_entries == 0 for one in lab.trickle.relay.relay_status()))

    try:
        yield wait
    finally:
        stop.set()
        thread.join(30)


def write_file(path: Path, **pipelines: Mapping[str, Any]) -> Path:
    """Write a file of pipelines."""
    path.write_text(json.dumps({"pipelines": pipelines}))
    return path
