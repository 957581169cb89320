"""The quick form of the changes of an outbox is the same as the plain one, also for odd keys."""

from __future__ import annotations

from random import Random

import psycopg
import pytest

from pgtrickle.model.sql_type import Column, SqlType
from pgtrickle.model.text.trusted import trusted
from pgtrickle.storage.outbox_changes import write_changes, write_texts

_COLUMNS = (
    Column("id", SqlType("integer", "int4", "N")),
    Column("exact", SqlType("numeric", "numeric", "N")),
    Column("real", SqlType("double precision", "float8", "N")),
    Column("note", SqlType("text", "text", "S")),
)
_EXACT = ("1.10", "'NaN'", "-0.00", "1e300")
_REAL = ("'-0'", "'Infinity'", "1e-7", "NULL")
_NOTES = ("NULL", "''", "E'a\"\\n\\u00e9'", "E'\\t{\"x\": 1}, '")
_WEIGHTS: dict[str, tuple[int, ...]] = {"none": (), "unique": (-1, 1), "odd": (-3, -2, -1, 1, 2)}


@pytest.mark.parametrize("weights", _WEIGHTS)
@pytest.mark.parametrize("key", [None, ["id"], []])
def test_both_forms_tell_the_same(database: str, weights: str, key: list[str] | None):
    draw, some = Random(f"{weights} {key}"), _WEIGHTS[weights]
    rows = []
    for id_ in ["NULL", *range(40)]:
        for weight in draw.sample(some, draw.randrange(len(some) + 1)):
            values = (draw.choice(_EXACT), draw.choice(_REAL), draw.choice(_NOTES))
            rows.append(f"({id_}, {', '.join(values)}, {weight})")
    with psycopg.connect(database) as connection:
        connection.execute(
            "CREATE TEMP TABLE changes"
            " (id int, exact numeric, real float8, note text, weight bigint) ON COMMIT DROP"
        )
        if rows:
            connection.execute(trusted(f"INSERT INTO changes VALUES {', '.join(rows)}"))

        def read(query: str) -> list[tuple[str | None, ...]]:
            told = "SELECT c.before::jsonb::text, c.after::jsonb::text FROM ({}) AS c"
            return connection.execute(trusted(told.replace("{}", query))).fetchall()

        plain = read(write_changes(_COLUMNS, key, "changes", "r.weight"))
        quick = read(write_texts(_COLUMNS, key, "changes", "r.weight"))
        assert (len(quick) > 10) is bool(rows)
        if weights == "unique" and key != []:
            assert sorted(map(repr, quick)) == sorted(map(repr, plain))
        # Which of several rows of a key are told together is left open.
        assert len(quick) == len(plain)
        for side in (0, 1):
            assert sorted(str(one[side]) for one in quick) == sorted(
                str(one[side]) for one in plain
            )
