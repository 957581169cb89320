"""SQL explains a stream table, and measures its next refresh, through the daemon."""

from __future__ import annotations

import json

import psycopg
import pytest

from tests.labs.lab import Lab

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def shop(served: Lab) -> Lab:
    served.run(
        "CREATE TABLE t (id int PRIMARY KEY, k int)",
        "INSERT INTO t VALUES (1, 1), (2, 1)",
    )
    served.create("counts", "SELECT k, count(*) AS n FROM t GROUP BY k")
    served.run("INSERT INTO t VALUES (3, 2)")
    return served


def test_explain_st_measures_and_changes_nothing(shop: Lab) -> None:
    before = shop.rows("TABLE counts")

    found = shop.value("CALL pgtrickle.explain_st('counts', with_analyze => true)")

    assert (found["action"], found["rows_inserted"]) == ("DIFFERENTIAL", 1)
    assert found["stages"][0]["statements"][0]["plan"]["Actual Rows"] >= 1
    assert shop.rows("TABLE counts") == before
    assert shop.value("SELECT figures FROM pgtrickle.list_profiles('counts')") == found


def test_explain_st_shows_the_plan_and_the_facts(shop: Lab) -> None:
    plan = shop.value("CALL pgtrickle.explain_st('counts', with_analyze => false)")
    facts: dict[str, str] = dict(shop.rows("SELECT * FROM pgtrickle.explain_st('counts')"))

    assert plan["operators"]["operator"] == "Result"
    assert facts["name"] == "public.counts"
    assert shop.rows("SELECT * FROM pgtrickle.list_profiles('counts')") == []


@pytest.mark.parametrize("form", ["text", "json", "dot", "mermaid", "html"])
def test_every_form_comes_by_sql(shop: Lab, form: str) -> None:
    call = "CALL pgtrickle.explain_stream_table('counts', '%s', with_analyze => %s)"
    plan, measured = (shop.value(call % (form, one)) for one in ("false", "true"))

    assert "public.t" in plan
    assert "public.t" in measured
    assert plan != measured
    if form == "json":
        assert json.loads(measured)["ran"]


def test_an_unknown_form_has_a_code(shop: Lab) -> None:
    with pytest.raises(psycopg.Error, match="svg") as caught:
        shop.run("CALL pgtrickle.explain_stream_table('counts', 'svg', true)")
    assert caught.value.sqlstate == "ST501"
