"""Refreshes as runs of OpenLineage, taken by a server over HTTP."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

import pgtrickle
from pgtrickle.client.trickle import Trickle
from pgtrickle.errors import TrickleError
from pgtrickle.settings import POSTGRES, Settings, load_settings


@dataclass
class Catalog:
    """What has arrived at a server of lineage."""

    url: str = ""
    events: list[dict[str, Any]] = field(default_factory=list)
    keys: set[str | None] = field(default_factory=set)

    def of(self, job: str) -> list[dict[str, Any]]:
        return [one for one in self.events if one["job"]["name"].endswith(f".{job}")]


@pytest.fixture
def catalog() -> Iterator[Catalog]:
    found = Catalog()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers["Content-Length"]))
            assert self.path == "/api/v1/lineage"
            found.events.append(json.loads(text))
            found.keys.add(self.headers["Authorization"])
            self.send_response(201)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
            """Say nothing of requests."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        found.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield found
        server.shutdown()


@contextmanager
def told(database: str, url: str) -> Iterator[tuple[Trickle, psycopg.Connection]]:
    settings = Settings(engine=POSTGRES, openlineage_url=url)
    with (
        pgtrickle.connect(database, settings=settings) as trickle,
        psycopg.connect(database, autocommit=True) as connection,
    ):
        connection.execute("CREATE TABLE customers (id int PRIMARY KEY, region text, kind text)")
        connection.execute("CREATE TABLE orders (id int PRIMARY KEY, customer int, price numeric)")
        connection.execute("INSERT INTO customers VALUES (1, 'north', 'shop'), (2, 'south', 'x')")
        connection.execute("INSERT INTO orders VALUES (1, 1, 10), (2, 2, 20), (3, 1, 0)")
        yield trickle, connection


REVENUE = """
    SELECT upper(c.region) AS region, c.kind, sum(o.price) AS total, count(*) AS orders
      FROM orders AS o JOIN customers AS c ON c.id = o.customer
     WHERE o.price >= 0 GROUP BY c.region, c.kind
"""


def test_a_refresh_is_a_run_with_column_lineage(
    database: str, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENLINEAGE_API_KEY", "key-of-the-test")
    with told(database, catalog.url) as (trickle, connection):
        trickle.create_stream_table("revenue", REVENUE)
        connection.execute("INSERT INTO orders VALUES (4, 2, 5)")
        trickle.refresh_stream_table("revenue")
        [last] = trickle.refresh_history("revenue", limit=1)

    start, complete = catalog.of("revenue")[-2:]
    name = str(conninfo_to_dict(database)["dbname"])
    assert (start["eventType"], complete["eventType"]) == ("START", "COMPLETE")
    assert start["eventTime"] < complete["eventTime"]
    assert start["run"]["runId"] == complete["run"]["runId"]
    assert complete["run"]["runId"].replace("-", "") == last.trace_id
    assert complete["job"]["name"] == f"{name}.public.revenue"
    assert [one["name"] for one in complete["inputs"]] == [
        f"{name}.public.customers",
        f"{name}.public.orders",
    ]
    [output] = complete["outputs"]
    assert output["namespace"].startswith("postgres://")
    assert output["outputFacets"]["outputStatistics"]["rowCount"] == last.rows_inserted
    schema = output["facets"]["schema"]["fields"]
    assert [(one["name"], one["type"]) for one in schema] == [
        ("region", "text"),
        ("kind", "text"),
        ("total", "numeric"),
        ("orders", "bigint"),
    ]
    lineage = output["facets"]["columnLineage"]
    assert {column: _origins(one["inputFields"]) for column, one in lineage["fields"].items()} == {
        "region": {("customers", "region", "TRANSFORMATION")},
        "kind": {("customers", "kind", "IDENTITY")},
        "total": {("orders", "price", "AGGREGATION")},
        "orders": set(),
    }
    assert _origins(lineage["dataset"]) >= {
        ("orders", "price", "FILTER"),
        ("orders", "customer", "JOIN"),
        ("customers", "id", "JOIN"),
        ("customers", "region", "GROUP_BY"),
    }
    assert catalog.keys == {"Bearer key-of-the-test"}
    assert "sum(" not in json.dumps(catalog.events)


def _origins(fields: list[dict[str, Any]]) -> set[tuple[str, str, str]]:
    return {
        (one["name"].rsplit(".", 1)[1], one["field"], how["subtype"])
        for one in fields
        for how in one["transformations"]
    }


def test_a_failure_is_a_failed_run_with_its_code(database: str, catalog: Catalog) -> None:
    with told(database, catalog.url) as (trickle, connection):
        trickle.create_stream_table("shares", "SELECT id, 1 / (price - 7) AS share FROM orders")
        connection.execute("UPDATE orders SET price = 7 WHERE id = 1")
        with pytest.raises(TrickleError) as caught:
            trickle.refresh_stream_table("shares")

    failed = catalog.of("shares")[-1]
    assert failed["eventType"] == "FAIL"
    assert failed["run"]["facets"]["errorMessage"]["message"] == caught.value.code
    assert "division" not in json.dumps(catalog.events)


def test_a_refresh_without_changes_is_no_run(database: str, catalog: Catalog) -> None:
    with told(database, catalog.url) as (trickle, _):
        trickle.create_stream_table("copy", "SELECT id, price FROM orders")
        trickle.refresh_stream_table("copy")
        trickle.refresh_stream_table("copy")

    assert [one["eventType"] for one in catalog.of("copy")] == ["START", "COMPLETE"]


def test_a_catalog_that_is_away_fails_no_refresh(database: str) -> None:
    with told(database, "http://127.0.0.1:9") as (trickle, connection):
        trickle.create_stream_table("copy", "SELECT id, price FROM orders")
        connection.execute("DELETE FROM orders WHERE id = 1")
        report = trickle.refresh_stream_table("copy")

    assert report.rows_deleted == 1


def test_a_database_does_not_say_who_is_told() -> None:
    stored = {"openlineage_url": "http://attacker.example"}

    assert load_settings({}, stored=stored).openlineage_url == ""
