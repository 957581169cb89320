"""The picture behind both consoles: a fixed number of statements, a reader's rights, a standby."""

from __future__ import annotations

import json
import re
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

import pgtrickle
from pgtrickle.catalog.console import read
from pgtrickle.catalog.console.picture import ALL, LATENCIES, Picture, PicturePart
from pgtrickle.catalog.console.read import Wanted, take_picture
from pgtrickle.errors import PrivilegeError
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.session import Session
from pgtrickle.settings import POSTGRES, Settings
from tests.catalog.databases import ordinary_role
from tests.fakes.engine import NoEngine
from tests.fixtures.restartable import OwnServer
from tests.labs.lab import Lab

SHOP = (
    "CREATE TABLE t (id int PRIMARY KEY, k int, v int)",
    "INSERT INTO t SELECT n, n % 5, n FROM generate_series(1, 50) AS n",
)
SUMS = "SELECT k, sum(v) AS v FROM t GROUP BY k"
# A client sends one of these for each statement.
_SENT = re.compile(r"\tF\t\d+\t(Query|Execute)\t")


@pytest.fixture
def shop(postgres_lab: Lab) -> Lab:
    postgres_lab.run(*SHOP, "DELETE FROM pgtrickle.pgt_requests")
    postgres_lab.create("sums", SUMS)
    postgres_lab.trickle.alter_stream_table("sums", schedule="1h")  # not late, however slow we are
    return postgres_lab


def test_every_part_is_there_and_nothing_that_was_not_asked_for(shop: Lab) -> None:
    picture = shop.trickle.insight.picture(name="sums")

    assert {one.value for one in PicturePart} | {"moment"} == set(picture.document())
    assert set(shop.trickle.insight.picture([PicturePart.TABLES]).document()) == {
        "moment",
        "tables",
    }


def test_tables_are_as_the_catalog_has_them(shop: Lab) -> None:
    shop.run("ANALYZE sums")
    [line] = shop.trickle.insight.picture([PicturePart.TABLES]).tables or ()
    table = shop.trickle.get_stream_table("sums")

    assert (line.id, line.name, line.status) == (table.id, "public.sums", table.status.value)
    assert (line.rows, line.target_s, line.late) == (5, None, False)
    assert line.last_refresh_at == table.last_refresh_at
    assert line.age_s is not None
    assert 0 <= line.age_s < 600


def test_a_missed_service_level_is_late(shop: Lab) -> None:
    shop.trickle.scheduler.set_stream_table_sla("sums", "5s")
    shop.run("UPDATE pgtrickle.pgt_stream_tables SET data_timestamp = now() - interval '6 s'")

    [line] = shop.trickle.insight.picture([PicturePart.TABLES]).tables or ()

    assert (line.target_s, line.late) == (5.0, True)


def test_latencies_are_the_last_twenty_of_the_history(shop: Lab) -> None:
    for _ in range(LATENCIES + 3):
        shop.run("UPDATE t SET v = v + 1 WHERE id = 1")
        shop.trickle.refresh_stream_table("sums")

    [line] = shop.trickle.insight.picture([PicturePart.LATENCIES]).latencies or ()
    told = shop.rows(
        "SELECT array_agg(duration_ms ORDER BY start_time)"
        " FROM pgtrickle.get_refresh_history('public.sums', 20)"
    )

    assert [(list(line.milliseconds),)] == told
    assert len(line.milliseconds) == LATENCIES
    assert (line.action, line.status, line.engine) == ("DIFFERENTIAL", "COMPLETED", POSTGRES)
    assert line.changed == 2


def test_latencies_of_the_tables_on_the_screen_alone(shop: Lab) -> None:
    shop.create("copies", "SELECT id FROM t")
    copies = shop.trickle.get_stream_table("copies").id

    found = shop.trickle.insight.picture([PicturePart.LATENCIES], ids=[copies]).latencies or ()

    assert [one.id for one in found] == [copies]
    assert shop.trickle.insight.picture([PicturePart.LATENCIES], ids=[]).latencies == ()


def test_the_planner_is_asked_for_some_stream_tables_or_for_the_first(
    shop: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.create("copies", "SELECT id FROM t")
    copies = shop.trickle.get_stream_table("copies").id

    def advised(ids: list[int] | None) -> list[str]:
        found = shop.trickle.insight.picture([PicturePart.ADVICE], ids=ids).advice or ()
        return [one.stream_table for one in found]

    assert advised(None) == ["public.copies", "public.sums"]
    assert advised([copies]) == ["public.copies"]
    assert advised([]) == []
    monkeypatch.setattr(read, "_ADVISED", 1)
    assert advised(None) == ["public.copies"]


def test_graph_names_every_source(shop: Lab) -> None:
    shop.create("large", "SELECT k FROM sums WHERE v > 100")
    edges = shop.trickle.insight.picture([PicturePart.GRAPH]).graph or ()

    assert [(one.name, one.source, one.source_type) for one in edges] == [
        ("public.large", "public.sums", "STREAM_TABLE"),
        ("public.sums", "public.t", "TABLE"),
    ]


def test_requests_come_without_their_arguments(shop: Lab) -> None:
    shop.run(
        "INSERT INTO pgtrickle.pgt_requests (verb, arguments) VALUES"
        """ ('create_stream_table', '{"name": "secret_plan", "query": "SELECT hush"}')"""
    )
    [line] = shop.trickle.insight.picture([PicturePart.REQUESTS]).requests or ()

    assert (line.verb, line.stream_table, line.open) == ("create_stream_table", "secret_plan", True)
    assert "hush" not in json.dumps(shop.trickle.insight.picture([PicturePart.REQUESTS]).document())


def test_open_requests_come_before_many_that_ended(shop: Lab) -> None:
    shop.run(
        "INSERT INTO pgtrickle.pgt_requests (verb, arguments) VALUES ('first', '{}')",
        "INSERT INTO pgtrickle.pgt_requests (verb, arguments, status, ended_at)"
        " SELECT 'other', '{}', 'COMPLETED', now() FROM generate_series(1, 200)",
    )
    lines = shop.trickle.insight.picture([PicturePart.REQUESTS]).requests or ()

    assert (lines[0].verb, len(lines)) == ("first", 100)


def test_a_password_in_a_session_setting_is_not_shown(shop: Lab) -> None:
    dsn = make_conninfo(
        shop.trickle.dsn, options="-c pg_trickle.ducklake_catalog_dsn=postgresql://u:hush@h/d"
    )
    settings = Settings(dsn=dsn, engine=POSTGRES)
    with pgtrickle.connect(settings=settings, engine=NoEngine()) as trickle:
        shown = trickle.insight.picture([PicturePart.SETTINGS]).document()

    values = {one["name"]: one["value"] for one in shown["settings"]}
    assert values["ducklake_catalog_dsn"] == "***"
    assert "hush" not in json.dumps(shown)


def test_a_picture_is_frozen_and_its_document_is_json(shop: Lab) -> None:
    picture = shop.trickle.insight.picture(name="sums")

    with pytest.raises(FrozenInstanceError):
        picture.tables = ()  # type: ignore[misc]  # that is the point
    for name in picture.document():
        assert name == "moment" or isinstance(getattr(picture, name), tuple)
    assert json.loads(json.dumps(picture.document())) == picture.document()


def count(connection: Session, wanted: Wanted, path: Path) -> int:
    """Return how many statements a picture takes, as the client library sends them."""
    with path.open("wb") as file:
        connection.pgconn.trace(file.fileno())
        take_picture(connection, wanted)
        connection.pgconn.untrace()
    return len(_SENT.findall(path.read_text()))


def test_the_number_of_statements_does_not_grow_with_the_tables(shop: Lab, tmp_path: Path) -> None:
    def count_all() -> dict[PicturePart | None, int]:
        all_parts = Wanted(frozenset(PicturePart), subject=QualifiedName("public", "sums"))
        with shop.trickle._runtime.connection() as connection:
            found: dict[PicturePart | None, int] = {
                part: count(connection, Wanted(frozenset({part})), tmp_path / "trace")
                for part in ALL
            }
            return found | {None: count(connection, all_parts, tmp_path / "trace")}

    with_one = count_all()
    for number in range(49):
        shop.run(f"CREATE TABLE t{number} (id int PRIMARY KEY, v int)")
        shop.trickle.create_stream_table(f"copy{number}", f"SELECT id FROM t{number}")
    with_fifty = count_all()

    assert len(shop.trickle.insight.picture([PicturePart.TABLES]).tables or ()) == 50
    assert with_fifty == with_one
    assert {with_one[part] for part in ALL} == {5}  # begin, modes, moment, part, commit
    assert with_one[None] == 4 + len(PicturePart)


def test_a_reader_sees_what_the_owner_sees_on_a_standby_too(own_server: OwnServer) -> None:
    with (
        ordinary_role(own_server.dsn) as reader,
        psycopg.connect(own_server.dsn, autocommit=True) as admin,
    ):
        for statement in SHOP:
            admin.execute(statement)
        owner = Settings(dsn=own_server.dsn, engine=POSTGRES)
        with pgtrickle.connect(settings=owner, engine=NoEngine(), init=True) as trickle:
            trickle.create_stream_table("sums", SUMS, schedule="1h")
            with pytest.raises(PrivilegeError):
                look(make_conninfo(own_server.dsn, user=reader))
            admin.execute("SELECT pgtrickle.grant_access(%s, 'reader')", [reader])
            full = trickle.insight.picture(name="sums")
        with own_server.copy() as standby:
            standby.start()
            seen = look(make_conninfo(standby.dsn, user=reader))
        at_home = look(make_conninfo(own_server.dsn, user=reader))

    for picture in (seen, at_home):
        assert set(picture.document()) == set(full.document())
        assert timeless(picture) == timeless(full)
    assert (seen.moment.standby, at_home.moment.standby) == (True, False)
    assert seen.moment.role == reader


def look(dsn: str) -> Picture:
    with pgtrickle.connect(
        settings=Settings(dsn=dsn, engine=POSTGRES), engine=NoEngine()
    ) as trickle:
        return trickle.insight.picture(name="public.sums")


def timeless(picture: Picture) -> dict[str, Any]:
    """Return what does not depend on who looks and when."""
    found = picture.document()
    del found["moment"]
    for line in found["tables"]:
        del line["age_s"], line["rows"]
    for line in found["metrics"]:
        del line["oldest_contents_seconds"], line["capture_lag_seconds"]
    for line in found["service_levels"]:
        del line["freshness_lag_s"]
    return found
