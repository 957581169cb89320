"""What Spark reads: the same rows whenever a batch is repeated, and the contents of any moment."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from pgtrickle.errors import ChangesGoneError, SettingError
from pgtrickle.service.outboxes import spark_rows
from pgtrickle.service.outboxes.spark_rows import (
    OutboxOptions,
    Part,
    commit_for_group,
    find_position,
    plan_parts,
    read_part,
)
from tests.labs.lab import Lab

Rows = list[tuple[Any, ...]]


@pytest.fixture
def stream(postgres_lab: Lab) -> Lab:
    lab = postgres_lab
    lab.run(
        'CREATE TABLE t (id int PRIMARY KEY, "v %s" numeric)',
        "INSERT INTO t SELECT i, i FROM generate_series(1, 9) AS i",
    )
    lab.create("copy", 'SELECT id, "v %s" FROM t')
    lab.trickle.outbox.enable_outbox("copy", inline_threshold_rows=3)
    return lab


def options(lab: Lab, **more: str) -> OutboxOptions:
    return OutboxOptions.of({"dsn": lab.trickle.dsn, "stream_table": "public.copy", **more})


def change(lab: Lab, *statements: str) -> None:
    lab.run(*statements)
    lab.trickle.refresh_stream_table("copy")


def test_the_contents_after_an_entry_are_the_same_later(stream: Lab) -> None:
    read = options(stream)
    change(stream, 'UPDATE t SET "v %s" = 1.50 WHERE id = 1')
    position = find_position(read)
    assert (position.first_id, position.last_id) == (1, 1)

    def contents() -> Rows:
        return sorted(read_part(read, Part(1, 1, contents=True)), key=lambda row: str(row[5]))

    before = contents()
    assert [json.loads(row[3]) for row in before] == [{"id": number} for number in range(1, 10)]
    assert before[0][5] == '{"id": 1, "v %s": 1.50}'
    assert {(row[0], row[2], row[4], row[6]) for row in before} == {(1, "insert", None, True)}
    change(stream, 'UPDATE t SET "v %s" = 1.5', "DELETE FROM t WHERE id < 3")
    change(stream, "INSERT INTO t VALUES (100, 1)", 'UPDATE t SET "v %s" = 2 WHERE id = 5')
    assert [row[5] for row in contents()] == [row[5] for row in before]


def test_tasks_share_the_entries_and_read_them_in_pages(
    stream: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_rows, "_TASK_CHANGES", 10)
    monkeypatch.setattr(spark_rows, "_PAGE", 2)
    read = options(stream)
    for number in range(4):
        change(stream, f'UPDATE t SET "v %s" = {10 + number} WHERE id <= {2 * number + 1}')
    parts = plan_parts(read, 1, 4)
    assert [(one.first_id, one.last_id) for one in parts] == [(1, 3), (4, 4)]
    found = [row for one in parts for row in read_part(read, one)]
    whole = [
        (one.outbox_id, one.row_number, one.op) for one in stream.trickle.outbox.outbox_rows("copy")
    ]
    assert [row[:3] for row in found] == whole
    assert Counter(row[0] for row in found) == {1: 1, 2: 3, 3: 5, 4: 7}
    assert not any(row[6] for row in found)
    assert all(row[7] is not None for row in found)
    assert plan_parts(read, 5, 4) == []
    for gone in ("0", "6"):
        with pytest.raises(ChangesGoneError):
            options(stream, starting=gone).first_id(find_position(read))
    assert options(stream, starting="5").first_id(find_position(read)) == 4


def test_a_group_follows_the_query(stream: Lab) -> None:
    stream.trickle.outbox.create_consumer_group("spark", "copy")
    change(stream, 'UPDATE t SET "v %s" = 0')
    commit_for_group(options(stream, group="spark"), 1)
    [lag] = stream.trickle.outbox.consumer_lag("spark")
    assert (lag.committed_id, lag.lag_entries) == (1, 0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"stream_table": ""},
        {"starting": "never"},
        {"ending_id": "-1"},
        {"max_entries_per_trigger": "many"},
        {"table": "copy"},
        {"dsn": "host=db password=hush"},
        {"dsn": "not one"},
    ],
)
def test_bad_options_are_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(SettingError) as caught:
        OutboxOptions.of({"dsn": "dbname=shop", "stream_table": "t", **wrong})
    assert caught.value.hint
    assert "hush" not in str(caught.value)
