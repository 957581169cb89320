"""Expressions in Spark's dialect: what means the same there, and what is refused."""

from __future__ import annotations

import pytest
import sqlglot

from pgtrickle.errors import UnsupportedExpressionError
from pgtrickle.model.sql_type import SqlType
from pgtrickle.sql.scalars import make_scalar
from pgtrickle.sql.translate import Dialect, translate
from pgtrickle.sql.translate.spark import RULES
from tests.sql.expressions import FAMILIES

_TYPES = {
    "i": SqlType("integer", "int4", "N"),
    "j": SqlType("bigint", "int8", "N"),
    "n": SqlType("numeric(10,2)", "numeric", "N", 10, 2),
    "u": SqlType("numeric", "numeric", "N"),
    "f": SqlType("double precision", "float8", "N"),
    "s": SqlType("text", "text", "S", collation="C"),
    "l": SqlType("text", "text", "S", collation="de_DE"),
    "h": SqlType("text", "text", "S", collation="nondeterministic"),
    "p": SqlType("character(3)", "bpchar", "S", collation="C"),
    "b": SqlType("boolean", "bool", "B"),
    "d": SqlType("date", "date", "D"),
    "g": SqlType("uuid", "uuid", "U"),
    "x": SqlType("interval", "interval", "T"),
    "e": SqlType('"app"."mood"', "mood", "E"),
}


def _spark(sql: str) -> str:
    return translate(make_scalar(sqlglot.parse_one(sql, dialect="postgres")), _TYPES, Dialect.SPARK)


@pytest.mark.parametrize(
    ("sql", "spark"),
    [
        ("i + j", "(`i` + `j`)"),
        ("i / 2", "CAST((`i` DIV 2) AS INT)"),
        ("j / i", "(`j` DIV `i`)"),
        ("i % 2", "(`i` % 2)"),
        ("n % 2", "(`n` % 2)"),
        ("- i", "(- `i`)"),
        ("i * n - 1.50", "((`i` * `n`) - 1.50)"),
        ("abs(n)", "abs(`n`)"),
        ("i = j AND NOT b", "((`i` = `j`) AND (NOT `b`))"),
        ("i <> 1 OR i >= 2", "((`i` <> 1) OR (`i` >= 2))"),
        ("i IS NULL", "(`i` IS NULL)"),
        ("i IS NOT NULL", "(`i` IS NOT NULL)"),
        ("NOT i IS NULL", "(NOT (`i` IS NULL))"),
        ("b IS TRUE", "(`b` IS TRUE)"),
        ("i IS DISTINCT FROM j", "(NOT (`i` <=> `j`))"),
        ("COALESCE(i, 0)", "coalesce(`i`, 0)"),
        ("GREATEST(i, j)", "greatest(`i`, `j`)"),
        ("LEAST(d, d)", "least(`d`, `d`)"),
        ("CASE WHEN b THEN i ELSE 0 END", "(CASE WHEN `b` THEN `i` ELSE 0 END)"),
        ("CASE i WHEN 1 THEN s END", "(CASE WHEN (`i` = 1) THEN `s` END)"),
        ("s || 'it''s'", "(`s` || 'it\\'s')"),
        ("s || '{o__changes} /*'", "(`s` || '\\u007Bo__changes} \\u002F*')"),
        ("s || i", "(`s` || CAST(`i` AS STRING))"),
        ("s LIKE 'a\\b%'", "((`s` LIKE 'ab%'))"),
        ("i = ANY (ARRAY[1, 2])", "(`i` IN (1, 2))"),
        ("i <> ALL (ARRAY[1, 2])", "(`i` NOT IN (1, 2))"),
        ("GREATEST(s, s)", "greatest(`s`, `s`)"),
        ("s = 'x'::text", "(`s` = 'x')"),
        ("s < s", "(`s` < `s`)"),
        ("l = l", "(`l` = `l`)"),
        ("p = p", "(rtrim(`p`) = rtrim(`p`))"),
        ("p::text = s", "(rtrim(`p`) = `s`)"),
        ("d < d", "(`d` < `d`)"),
        ("g = g", "(`g` = `g`)"),
        ("e = e", "(`e` = `e`)"),
        ("i::bigint", "CAST(`i` AS BIGINT)"),
        ("i::numeric", "CAST(`i` AS DECIMAL(10, 0))"),
        ("i::double precision", "CAST(`i` AS DOUBLE)"),
        ("NULL::integer", "CAST(NULL AS INT)"),
        ("3000000000", "3000000000"),
    ],
)
def test_translated(sql: str, spark: str) -> None:
    assert _spark(sql) == spark


@pytest.mark.parametrize(
    "sql",
    [
        "n / 3",  # the digits of a quotient follow PostgreSQL's own rules
        "l < l",  # the order of text follows a collation
        "h = h",  # equal texts may have different bytes
        "h LIKE 'x%'",
        "h ~ 'x'",
        "replace(h, 'a', 'b')",
        "h IN ('a', 'b')",
        "p < p",
        "e < e",
        "x = x",  # 24 hours are one day
        "f::text",
        "s::integer",
        "upper(s)",
        "md5(s)",
        "app.upper(s)",  # somebody's own function
        "i + 1e3",
        "b + 1",
        "i = s",
        "i = ANY (p)",
    ],
)
def test_refused(sql: str) -> None:
    with pytest.raises(UnsupportedExpressionError) as refused:
        _spark(sql)

    assert refused.value.code == "ST106"
    assert refused.value.hint


def test_every_rule_has_an_expression_that_is_evaluated_on_both_sides() -> None:
    used = {
        type(node)
        for family in FAMILIES
        for source in family.translated
        for node in sqlglot.parse_one(source, dialect="postgres").walk()
    }

    assert set(RULES) <= used


def test_a_product_without_known_digits_counts_them_itself() -> None:
    text = _spark("u * u")

    assert text.startswith("(CASE WHEN (CAST(regexp_extract(typeof(`u`)")
    assert text.endswith("ELSE (`u` * `u`) END)")
