"""The rows of a stream table as they were: every snapshot shows what the stream table held then."""

from __future__ import annotations

import math
from collections import Counter
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from pgtrickle.errors import TrickleError
from tests.lake.shore import COPY, FarShore, Shore

_AT_ONCE = timedelta(0)
_WINDOWS = (
    "DELETE FROM t WHERE id % 3 = 0",
    "UPDATE t SET k = 9, v = 1, s = 'same' WHERE id % 4 = 0",
    "INSERT INTO t SELECT i, i, NULL, 's''\"' FROM generate_series(200, 240) AS i",
    "DELETE FROM t WHERE k = 9 OR id > 220",
    "TRUNCATE t",
    "INSERT INTO t VALUES (1, 1, 1, 'last')",
)


def past(shore: Shore, as_of: str | int | datetime, **options: Any) -> Counter[tuple[Any, ...]]:
    found = shore.trickle.lake.show_as_of("copy", as_of, **options)
    return Counter(tuple(row[name] for name in found.columns) for row in found.rows)


def newest(shore: Shore) -> int:
    [(snapshot,)] = shore.in_catalog("SELECT max(snapshot_id) FROM lake.ducklake_snapshot")
    return int(snapshot)


def code_of(shore: Shore, as_of: str | int | datetime, name: str = "copy", **options: Any) -> str:
    with pytest.raises(TrickleError) as caught:
        shore.trickle.lake.show_as_of(name, as_of, **options)
    assert caught.value.hint
    return caught.value.code


def check_every_snapshot(shore: Shore) -> None:
    """Compare each snapshot with the contents of its time, before and after housekeeping."""
    before = datetime.now(UTC)
    shore.create("copy", COPY)
    held = {newest(shore): Counter(shore.tell("TABLE copy"))}
    moments = {newest(shore): datetime.now(UTC)}
    for statement in _WINDOWS:
        shore.window("copy", statement)
        held[newest(shore)] = Counter(shore.tell("TABLE copy"))
        moments[newest(shore)] = datetime.now(UTC)
    assert len(held) == len(_WINDOWS) + 1

    for _ in range(2):
        for snapshot, rows in held.items():
            moment = moments[snapshot]
            elsewhere = moment.astimezone(timezone(timedelta(hours=5, minutes=30)))
            unzoned = moment.replace(tzinfo=None).isoformat(" ")
            for as_of in (snapshot, f" {snapshot}", moment, str(elsewhere), unzoned):
                assert past(shore, as_of, max_rows=1_000) == rows, as_of
        shore.trickle.lake.maintain_lake(_AT_ONCE)
    assert code_of(shore, before) == "ST704"
    assert code_of(shore, newest(shore) + 1) == "ST704"


def test_every_snapshot_shows_what_the_stream_table_held(shore: Shore):
    check_every_snapshot(shore)


def test_every_snapshot_of_a_catalog_in_another_database(far: FarShore):
    check_every_snapshot(far)


def test_rows_beyond_the_limit_are_told_of(shore: Shore):
    shore.create("copy", COPY)
    at = newest(shore)

    some = shore.trickle.lake.show_as_of("copy", at, max_rows=99)
    every = shore.trickle.lake.show_as_of("copy", at, ["s", "k"], max_rows=100)

    assert (len(some.rows), some.complete) == (99, False)
    assert (len(every.rows), every.complete) == (100, True)
    assert every.columns == ("s", "k")
    assert Counter(row["k"] for row in every.rows) == dict.fromkeys(range(5), 20)


@pytest.mark.parametrize("as_of", ["never", "2026-02-31", "", "9" * 30, "-1"])
def test_what_is_no_moment_is_refused(shore: Shore, as_of: str):
    shore.create("copy", COPY)

    assert code_of(shore, as_of) == "ST704"


def test_refusals_have_codes(shore: Shore):
    shore.create("copy", COPY)
    shore.trickle.create_stream_table("alone", "SELECT id FROM t")
    at = newest(shore)

    assert code_of(shore, at, "alone") == "ST703"
    assert code_of(shore, at, "nothing") == "ST201"
    assert code_of(shore, at, columns=["k", "w"]) == "ST704"
    assert code_of(shore, at, max_rows=0) == "ST501"
    assert code_of(shore, at, max_rows=10_001) == "ST501"
    # Another table of that name, which nobody should take for the stream table.
    shore.ask("DROP TABLE copy")
    shore.ask("CREATE TABLE copy AS SELECT 1 AS k, 2 AS v, 'other' AS s")
    assert code_of(shore, newest(shore)) == "ST704"
    assert past(shore, at).total() == 100


def test_values_that_json_lacks_are_text(shore: Shore):
    shore.run(
        "CREATE TABLE u (f float8, n numeric, b bytea, d date, l int[], j jsonb)",
        r"""INSERT INTO u VALUES ('NaN', 0.10, '\x00ff', '2026-01-31', '{1,NULL}', '{"a": 1}')""",
    )
    shore.trickle.create_stream_table("copy", "SELECT * FROM u", sink="ducklake")

    found = shore.trickle.lake.show_as_of("copy", newest(shore))

    [row] = found.rows
    assert math.isnan(row["f"])
    assert found.to_json()["rows"] == [
        {
            "f": "NaN",
            "n": "0.10",
            "b": "\\x00ff",
            "d": "2026-01-31",
            "l": [1, None],
            "j": '{"a": 1}',
        }
    ]
