"""A closer look: changes as they come, two moments of the lake, figures of a plan, a new table."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlencode

import pytest
from psycopg.conninfo import make_conninfo

import pgtrickle
from pgtrickle.client.commands import estimate_query
from pgtrickle.console import closer
from pgtrickle.console.closer import compare_moments, edge_figures, tail_changes
from pgtrickle.errors import SettingError, TrickleError
from pgtrickle.settings import POSTGRES, Settings
from tests.catalog.databases import ordinary_role
from tests.console.pages import Site, served
from tests.fakes.engine import DuckDbEngine, NoEngine
from tests.labs.lab import Lab
from tests.lake.shore import SOURCE, SUMS, open_shore


def change(shop: Lab, number: int) -> None:
    shop.run(f"UPDATE t SET v = v + 1 WHERE id = {number}")
    shop.refresh("sums")


def test_changes_of_rows_come_from_the_outbox(shop: Lab) -> None:
    shop.trickle.outbox.enable_outbox("sums")
    change(shop, 5)
    first = tail_changes(shop.trickle, "public.sums", None)
    change(shop, 6)
    then = tail_changes(shop.trickle, "public.sums", first.last)

    assert (first.rows, then.rows, then.why) == (True, True, "")
    [one] = then.changes
    assert (one["before"]["k"], one["after"]["k"]) == (1, 1)
    assert one["after"]["v"] - one["before"]["v"] == 1
    assert tail_changes(shop.trickle, "public.sums", then.last).changes == ()


def test_without_an_outbox_the_history_tells_how_many(shop: Lab) -> None:
    first = tail_changes(shop.trickle, "public.sums", None)
    change(shop, 5)
    then = tail_changes(shop.trickle, "public.sums", first.last)

    assert not first.rows
    assert "has no outbox" in first.why
    one = then.changes[0]  # a verification may follow
    assert (one["op"], one["inserted"], one["deleted"]) == ("DIFFERENTIAL", 1, 1)


def test_who_may_not_read_the_table_sees_no_rows_of_its_outbox(shop: Lab) -> None:
    shop.trickle.outbox.enable_outbox("sums")
    change(shop, 5)
    with ordinary_role(shop.trickle.dsn) as reader:
        shop.run(f"SELECT pgtrickle.grant_access('{reader}', 'reader')")
        settings = Settings(dsn=make_conninfo(shop.trickle.dsn, user=reader), engine=POSTGRES)
        with (
            pgtrickle.connect(settings=settings, engine=NoEngine()) as guest,
            served(guest) as site,
        ):
            found = site.ask("/api/changes?name=public.sums").json
        shop.run(f"SELECT pgtrickle.revoke_access('{reader}')")

    assert not found["rows"]
    assert "may not read every row" in found["why"]
    assert all("before" not in one for one in found["changes"])


def test_strange_numbers_are_refused(site: Site) -> None:
    for after in ("x", "-1", "1.5", str(2**63), "1;SELECT"):
        asked = urlencode({"name": "public.sums", "after": after})
        assert site.ask(f"/api/changes?{asked}").status == 400, after


def test_two_moments_of_the_lake_are_compared(
    database: str, duckdb_engine: DuckDbEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_shore(database, duckdb_engine, tmp_path) as shore:
        shore.run(*SOURCE)
        shore.create("sums", SUMS)
        [before] = [one.snapshot_id for one in shore.trickle.lake.ducklake_sink_status()]
        held = shore.tell("TABLE sums")
        shore.run("UPDATE t SET v = v + 1", "DELETE FROM t WHERE k IS NULL")
        shore.trickle.refresh_stream_table("sums")
        [after] = [one.snapshot_id for one in shore.trickle.lake.ducklake_sink_status()]
        holds = shore.tell("TABLE sums")
        with served(shore.trickle) as site:
            asked = urlencode({"name": "public.sums", "before": before, "after": after})
            found = site.ask(f"/api/difference?{asked}").json
            same = compare_moments(shore.trickle, "public.sums", str(after), str(after))
            lost = site.ask("/api/difference?name=public.sums&before=1999-01-01&after=now")
        monkeypatch.setattr(closer, "MOST_ROWS", 1)
        with pytest.raises(SettingError, match="more than 1 rows"):
            compare_moments(shore.trickle, "public.sums", str(before), str(after))

    assert found["added"] == len(set(holds) - set(held)) > 0
    assert found["removed"] == len(set(held) - set(holds)) > 0
    shown = {tuple(row) for kind, _, row in found["rows"] if kind == "added"}
    written = {tuple(None if v is None else str(v) for v in row) for row in set(holds) - set(held)}
    assert shown == written
    assert (same.added, same.removed, same.rows) == (0, 0, ())
    assert (lost.status, "error" in lost.json) == (502, True)


def test_a_plan_has_the_figures_of_the_last_refresh_or_of_a_rehearsal(shop: Lab) -> None:
    change(shop, 5)
    last = next(one for one in shop.trickle.refresh_history("sums") if one.reads)
    known = edge_figures(shop.trickle, "sums")

    assert known["of"] == f"refresh {last.id}"
    assert known["reads"]["public.t"][0] == sum(one.rows for one in last.reads) == 2
    assert known["rows"] == 2


def test_a_query_is_estimated_and_created_by_who_may(shop: Lab, site: Site) -> None:
    query = "SELECT k, count(*) AS n FROM t GROUP BY k"
    found = site.act("/api/validate", {"query": query}).json
    made = site.act("/api/create", {"name": "public.n", "query": query, "schedule": "5m"}).json
    again = site.act("/api/create", {"name": "public.n", "query": query}).json

    assert found["estimate"]["rows"] >= 1
    assert found["estimate"]["cost"] > 0
    assert (made["done"], made["text"]) == (True, "public.n is created with 5 rows")
    assert shop.trickle.get_stream_table("n").schedule == "5m"
    assert (again["done"], "ST202" in again["text"]) == (False, True)


def test_what_is_tried_does_nothing(shop: Lab, site: Site) -> None:
    for query in (
        "SELECT 1 AS one; DROP TABLE t",
        "DELETE FROM t",
        "WITH d AS (DELETE FROM t RETURNING id) TABLE d",
    ):
        found = site.act("/api/validate", {"query": query})
        assert not found.json.get("usable")
    assert estimate_query(shop.trickle, "SELECT 1; DROP TABLE t") is None
    assert shop.value("SELECT count(*) FROM t") == 50


def test_read_only_creates_nothing(shop: Lab) -> None:
    with served(shop.trickle, read_only=True) as site:
        given = {"name": "public.n", "query": "SELECT id FROM t"}
        assert site.act("/api/create", given).status == 403
    with pytest.raises(TrickleError):
        shop.trickle.get_stream_table("n")
