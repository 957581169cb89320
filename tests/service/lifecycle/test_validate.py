"""``validate_query``: differential or not, every reason, and nothing created."""

from __future__ import annotations

import pytest

from pgtrickle import Validation
from pgtrickle.errors import TrickleError
from tests.labs.lab import Lab


@pytest.fixture
def shop(lab: Lab) -> Lab:
    lab.run(
        "CREATE TABLE c (id int PRIMARY KEY, region text)",
        "CREATE TABLE o (id int PRIMARY KEY, c_id int, qty numeric(10, 2), note text)",
        "CREATE VIEW big AS SELECT id, c_id FROM o WHERE qty > 5",
    )
    return lab


def validated(lab: Lab, query: str) -> Validation:
    """Validate a query; it must leave nothing, and say what creation says."""
    before = everything(lab)
    validation = lab.trickle.validate_query(query)
    assert everything(lab) == before
    for mode, allowed in (("DIFFERENTIAL", validation.differential), ("AUTO", validation.usable)):
        if allowed:
            lab.trickle.create_stream_table("made", query, refresh_mode=mode, initialize=False)
            lab.trickle.drop_stream_table("made")
            continue
        with pytest.raises(TrickleError) as caught:
            lab.trickle.create_stream_table("made", query, refresh_mode=mode, initialize=False)
        assert str(caught.value) in {str(reason) for reason in validation.reasons}
    return validation


def everything(lab: Lab) -> list[tuple[object, ...]]:
    return lab.rows(
        "SELECT oid, relname FROM pg_class UNION ALL SELECT oid, tgname FROM pg_trigger"
    )


def test_a_differential_query_is_described(shop: Lab) -> None:
    validation = validated(
        shop,
        "SELECT c.region, sum(o.qty) AS total, max(o.note) AS last FROM big"
        " JOIN o ON o.id = big.id JOIN c ON c.id = big.c_id GROUP BY c.region",
    )

    assert validation.differential
    assert validation.reasons == ()
    assert [(column.name, column.type.display) for column in validation.columns] == [
        ("region", "text"), ("total", "numeric"), ("last", "text"),
    ]  # fmt: skip
    assert {str(one.name): one.columns for one in validation.sources} == {
        "public.c": ("id", "region"),
        "public.o": ("c_id", "id", "note", "qty"),
    }
    assert validation.explanation is not None
    [stage] = validation.explanation.stages
    assert [table.name for table in stage.state] == [
        "pgtrickle_state.st_<id>_group_1", "pgtrickle_state.st_<id>_group_1_v1",
    ]  # fmt: skip
    assert validation.explanation.missing_indexes == ('CREATE INDEX ON "public"."o" ("c_id");',)


def test_every_reason_is_given_with_its_place(shop: Lab) -> None:
    query = (
        "SELECT c.id,\n"
        "       (SELECT count(*) FROM (SELECT DISTINCT c.id, x FROM (SELECT 1) x) d) AS notes,\n"
        "       c.region\n"
        "  FROM c\n"
        " WHERE c.region < age(timestamp '2000-01-01')::text\n"
        "   AND EXISTS (SELECT 1 FROM (SELECT 1 UNION SELECT 2 LIMIT c.id) AS few)"
    )
    validation = validated(shop, query)

    assert (validation.differential, validation.usable) == (False, True)
    lines = {
        reason.detail.split(":")[0]: reason.detail.splitlines()[1].strip()
        for reason in validation.reasons
    }
    assert set(lines) >= {"line 2", "line 5", "line 6"}
    assert all(set(marks) == {"^"} for marks in lines.values())
    assert all(reason.hint and reason.code == "ST102" for reason in validation.reasons)


def test_parts_are_refused_one_by_one(shop: Lab) -> None:
    validation = validated(
        shop,
        "SELECT o.id FROM o JOIN c ON o.note ~ c.region"
        " UNION ALL SELECT d.n FROM (SELECT count(*) OVER (ORDER BY id"
        " ROWS (SELECT 1) PRECEDING) AS n FROM c) AS d"
        " UNION ALL (SELECT few.n FROM o,"
        " LATERAL (SELECT 1 AS n UNION SELECT 2 LIMIT o.id) AS few)",
    )

    codes = [reason.code for reason in validation.reasons]
    texts = " ".join(map(str, validation.reasons))
    assert set(codes) == {"ST102"}
    assert "window frame" in texts
    assert "LIMIT" in texts
    assert "~" not in texts  # PostgreSQL computes that part


def test_every_source_that_cannot_be_captured_is_named(shop: Lab) -> None:
    shop.run(
        "CREATE UNLOGGED TABLE fleeting (id int)",
        "CREATE TABLE parts (id int) PARTITION BY RANGE (id)",
        "CREATE UNLOGGED TABLE part PARTITION OF parts DEFAULT",
    )
    validation = shop.trickle.validate_query(
        "SELECT fleeting.id, random() AS r FROM fleeting JOIN parts USING (id)"
    )

    assert not validation.usable
    assert sorted(reason.code for reason in validation.reasons) == ["ST103", "ST104", "ST104"]
    [unlogged] = validated(shop, "SELECT id FROM fleeting").reasons
    assert unlogged.code == "ST104"


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("SELEC 1", "ST101"),
        ("SELECT id FROM nowhere", "ST105"),
        ("SELECT id, id FROM o", "ST107"),
        ("SELECT random() AS r FROM o", "ST103"),
        ("SELECT id FROM o WHERE id IN (" + ",".join(map(str, range(50_000))) + ")", "ST108"),
        ("SELECT 'a\0'", "ST101"),
        ("SELECT id AS __weight FROM o", "ST304"),
    ],
)
def test_what_cannot_be_a_stream_table_is_an_answer_not_an_error(
    shop: Lab, query: str, code: str
) -> None:
    validation = validated(shop, query)

    assert (validation.differential, validation.usable) == (False, False)
    assert [reason.code for reason in validation.reasons] == [code]
    assert validation.reasons[0].hint


def test_a_correlated_part_gives_no_reason_of_its_own(shop: Lab) -> None:
    validation = validated(
        shop,
        "SELECT c.id, count(*) OVER (ORDER BY c.id ROWS (SELECT 1) PRECEDING) AS n FROM c"
        " WHERE EXISTS (SELECT 1 FROM o WHERE o.c_id > c.id AND o.qty > 1)",
    )

    assert not any("the reference" in str(reason) for reason in validation.reasons)
    assert validation.reasons
