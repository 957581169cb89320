"""The page without a browser: panels as JSON, events, deeds."""

from __future__ import annotations

import time
from importlib import resources

import pytest

import pgtrickle
from pgtrickle import Trickle
from pgtrickle.console.panels import PANELS
from pgtrickle.console.web.app import _FILES
from pgtrickle.errors import ConnectionLostError
from pgtrickle.settings import POSTGRES, Settings
from tests.console.pages import Site, served
from tests.fakes.engine import NoEngine
from tests.fixtures.restartable import OwnServer
from tests.labs.lab import Lab


@pytest.fixture
def shop(shop: Lab) -> Lab:
    shop.create("large", "SELECT k FROM sums WHERE v > 100")
    return shop


def test_every_panel_has_the_lines_of_the_terminal(scene: Trickle) -> None:
    with served(scene) as site:
        for name in PANELS:
            document = site.ask(f"/api/panel/{name}?name=public.revenue").json
            assert (document["panel"], document["moment"]["standby"]) == (name, False)
            for line in document["sheet"]["lines"]:
                columns = 1 if line["spans"] else len(document["sheet"]["columns"])
                assert len(line["cells"]) == columns
        graph = site.ask("/api/panel/graph").json["graph"]
        chart = site.ask("/api/panel/table?name=public.revenue").json["chart"]

    assert ["public.revenue", "public.both"] in graph["edges"]
    assert {one["name"]: one["kind"] for one in graph["nodes"]}["public.orders"] == "table"
    assert len(chart) == len(scene.refresh_history("revenue", limit=100))


def test_a_filter_is_applied_before_lines_are_sent(scene: Trickle) -> None:
    with served(scene) as site:
        found = site.ask("/api/panel/overview?words=PER_c").json["sheet"]["lines"]

    assert [one["key"] for one in found] == ["public.per_customer"]


def test_what_changes_is_sent_and_a_refresh_is_heard_soon(shop: Lab, site: Site) -> None:
    with site.events("panel=graph") as events:
        kind, document = next(events)
        assert (kind, document["panel"]) == ("panel", "graph")
        time.sleep(0.5)  # until it listens
        shop.run("UPDATE t SET v = v + 1 WHERE id = 1")
        shop.trickle.refresh_stream_table("sums")
        told = next(data for kind, data in events if kind == "notice")

    assert (told["name"], told["payload"]["action"]) == ("public.sums", "DIFFERENTIAL")


def test_only_what_has_changed_is_sent_again(shop: Lab, site: Site) -> None:
    for number in range(8):
        query = f"SELECT id FROM t WHERE k = {number}"
        shop.trickle.create_stream_table(f"more_{number}", query, schedule="1h")
    for name in ("sums", "large"):  # none gets late meanwhile
        shop.trickle.alter_stream_table(name, schedule="1h")
    # Ages that differ by a second are taken for the same.
    shop.run(
        "UPDATE pgtrickle.pgt_stream_tables SET data_timestamp = data_timestamp - '9 s'::interval"
    )
    with site.events("panel=graph") as events:
        whole = next(data for kind, data in events if kind == "panel")
        shop.run("UPDATE t SET v = v + 1 WHERE id = 1")
        shop.trickle.refresh_stream_table("sums")
        changed = next(data for kind, data in events if kind == "patch")

    lines, nodes = whole["sheet"]["lines"], whole["graph"]["nodes"]
    own = {"public.sums", "public.large"}
    assert {lines[int(place)]["key"] for place in changed["lines"]} <= own
    assert "public.sums" in {nodes[int(place)]["name"] for place in changed["nodes"]} <= own
    assert len(str(changed)) * 3 < len(str(whole))


def test_actions_and_queries_are_answered(shop: Lab, site: Site) -> None:
    act = {"action": "refresh", "target": "stream table", "name": "public.sums"}

    assert site.act("/api/act", act).json["text"].startswith("public.sums: NO_DATA")
    refused = site.act("/api/act", {**act, "name": "public.none"}).json
    assert not refused["done"]
    assert "ST201" in refused["text"]
    fine = site.act("/api/validate", {"query": "SELECT id FROM t"}).json
    assert (fine["refresh_mode"], fine["sources"]) == ("DIFFERENTIAL", [["public.t", ["id"]]])
    wrong = site.act("/api/validate", {"query": "SELECT id, nonsense FROM t"}).json
    assert not wrong["usable"]
    assert "^^^^^^^^" in wrong["reasons"][0]["detail"]


def test_the_page_loads_nothing_from_elsewhere() -> None:
    static = resources.files("pgtrickle.console.web").joinpath("static")
    told = "/*! https://github.com/leeoniya/uPlot "  # a comment
    for name in _FILES:
        text = static.joinpath(name).read_text().replace("http://www.w3.org/", "")
        assert "http://" not in text, name
        assert "https://" not in text.removeprefix(told), name


def test_a_lost_server_is_said_and_its_return_too(own_server: OwnServer) -> None:
    settings = Settings(dsn=own_server.dsn, engine=POSTGRES, connection_timeout_seconds=2)
    with (
        pgtrickle.connect(settings=settings, engine=NoEngine(), init=True) as trickle,
        served(trickle) as site,
        site.events("panel=overview") as events,
    ):
        assert next(events)[0] == "panel"
        own_server.stop("fast")
        kind, error = next(one for one in events if one[0] not in {"beat", "panel"})
        assert (kind, error["code"]) == ("away", ConnectionLostError.code)
        assert error["hint"]
        own_server.start()
        assert next(kind for kind, _ in events if kind != "away") in {"beat", "panel"}
