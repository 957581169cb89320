"""Every type next to the NULLs that grouping sets and outer joins put in its place."""

from __future__ import annotations

import pytest

from pgtrickle.errors import DataError, UnsupportedQueryError
from pgtrickle.service.compile import compile_query
from tests.labs.lab import Lab

_TYPES = {
    "char(4)": ("'ab'", "'cd'"),
    "varchar(5)": ("'ab'", "'cd'"),
    "int[]": ("'{1,2}'", "'{3}'"),
    "text[]": ("'{a}'", "'{b,NULL}'"),
    "mood": ("'sad'", "'glad'"),
    "mood[]": ("'{sad}'", "'{glad}'"),
    "int4range": ("'[1,3)'", "'empty'"),
    "int4multirange": ("'{[1,3)}'", "'{}'"),
    "numeric": ("1.50", "2"),
    "numeric(8,2)": ("1.5", "2"),
    "date": ("'2020-01-01'", "'infinity'"),
    "timestamptz": ("'2020-01-01'", "'2021-01-01'"),
    "interval": ("'1 day'", "'2 hours'"),
    "bytea": ("'\\x01'", "'\\x02'"),
    "uuid": ("'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "'b0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'"),
    "jsonb": ("'{\"a\": 1}'", "'[]'"),
    "bit(3)": ("B'101'", "B'010'"),
    "varbit": ("B'1'", "B'0'"),
    "inet": ("'10.0.0.1'", "'::1'"),
    "macaddr": ("'08:00:2b:01:02:03'", "'08:00:2b:01:02:04'"),
    "time": ("'10:00'", "'11:00'"),
    "timetz": ("'10:00+02'", "'11:00+02'"),
    "name": ("'a'", "'b'"),
    '"char"': ("'a'", "'b'"),
    "money": ("1", "2"),
    "float8": ("1.5", "'NaN'"),
    "bool": ("true", "false"),
    "other.date": ("'monday'", "'tuesday'"),
    "code": ("'ab'", "'cd'"),
    "code[]": ("'{ab}'", "'{cd,NULL}'"),
    "char(3)[]": ("'{ab}'", "'{cd}'"),
    "tsvector": ("'a b'", "'c'"),
    "regclass": ("'pg_class'", "'pg_proc'"),
    "int2": ("1", "2"),
    "int4": ("1", "2"),
    "int8": ("1", "9223372036854775807"),
    "float4": ("1.5", "'-Infinity'"),
    "text": ("'ab'", "''"),
    "cidr": ("'10.0.0.0/8'", "'::/0'"),
    "macaddr8": ("'08:00:2b:01:02:03:04:05'", "'08:00:2b:01:02:03:04:06'"),
    "oid": ("1", "4294967295"),
    "pg_lsn": ("'0/1'", "'1/0'"),
    "xid": ("'1'", "'2'"),
    "xid8": ("'1'", "'18446744073709551615'"),
    "cid": ("'1'", "'2'"),
    "tid": ("'(0,1)'", "'(1,1)'"),
    "aclitem": ("'=r/{me}'", "'=w/{me}'"),
    "timestamp": ("'2020-01-01 10:00'", "'-infinity'"),
    "tsquery": ("'a & b'", "'c'"),
    "int8range": ("'[1,3)'", "'(,3)'"),
    "numrange": ("'[1.50,3)'", "'[2,2]'"),
    "daterange": ("'[2020-01-01,2020-02-01)'", "'empty'"),
    "tsrange": ("'[2020-01-01,2020-02-01)'", "'(,)'"),
    "tstzrange": ("'[2020-01-01,2020-02-01)'", "'(,)'"),
    "int8multirange": ("'{[1,3),[5,9)}'", "'{}'"),
    "nummultirange": ("'{[1.50,3)}'", "'{}'"),
    "datemultirange": ("'{[2020-01-01,2020-02-01)}'", "'{}'"),
    "tsmultirange": ("'{[2020-01-01,2020-02-01)}'", "'{}'"),
    "tstzmultirange": ("'{[2020-01-01,2020-02-01)}'", "'{}'"),
    "regcollation": ("'\"C\"'", "'\"POSIX\"'"),
    "regconfig": ("'english'", "'simple'"),
    "regdictionary": ("'simple'", "'english_stem'"),
    "regnamespace": ("'pg_catalog'", "'public'"),
    "regoper": ("'||/'", "'|/'"),
    "regoperator": ("'+(int4,int4)'", "'-(int4,int4)'"),
    "regproc": ("'now'", "'pi'"),
    "regprocedure": ("'now()'", "'pi()'"),
    "regrole": ("'pg_monitor'", "'pg_read_all_data'"),
    "regtype": ("'int4'", "'text'"),
    "pair[]": ("'{\"(1,a)\"}'", "'{}'"),
    "codes": ("'{ab}'", "'{cd}'"),
    "floatrange": ("'[1.5,2)'", "'(,)'"),
    "int[][]": ("'{{1,2},{3,4}}'", "'{}'"),
    "numeric[]": ("'{1.50}'", "'{2,NULL}'"),
    "date[]": ("'{2020-01-01}'", "'{infinity}'"),
    "timestamptz[]": ("'{2020-01-01}'", "'{2021-01-01}'"),
    "jsonb[]": ("'{\"{}\"}'", "'{}'"),
    "bytea[]": ("ARRAY['\\x01'::bytea]", "'{}'"),
    "int4range[]": ("ARRAY['[1,3)'::int4range]", "'{}'"),
    "float8[]": ("'{NaN}'", "'{0}'"),
    "bool[]": ("'{t}'", "'{f,NULL}'"),
    "oidvector": ("'1 2'", "'3'"),
}
_CHANGES = (
    "INSERT INTO t SELECT id + 10, c FROM t WHERE id < 3",
    "DELETE FROM t WHERE id = 2",
    "UPDATE t SET c = NULL WHERE id = 1",
)
# PostgreSQL compares these by more than their text, or a list of them is one value: it computes the
# joins by them itself, and the reason names the type.
_RANGES = [one for one in _TYPES if one.endswith("range")]
_REGISTERED = [one for one in _TYPES if one.startswith("reg")]
_NOT_JOINED = {
    **{one: one for one in ("interval", "jsonb", "tsvector", "tsquery", "xid", "cid", "tid")},
    **{one: one for one in ("aclitem", "oidvector", "oid")},
    **{one: one for one in _RANGES},
    **dict.fromkeys(_REGISTERED, "oid"),
    **{one: one for one in _TYPES if one.endswith("[]")},
    "int[]": "int4[]",
    "int[][]": "int4[]",
    "mood[]": "public.mood[]",
    "code[]": "public.code[]",
    "pair[]": "public.pair[]",
    "char(3)[]": "bpchar[]",
    "codes": "bpchar[]",
    "floatrange": "public.floatrange",
}
# What PostgreSQL has for its own statistics and rules: nobody can write a value of them.
_INTERNAL = {"pg_dependencies", "pg_mcv_list", "pg_ndistinct", "pg_node_tree"}
_SPELLED = {"bpchar": "char(4)", "char": '"char"', "bit": "bit(3)", "varchar": "varchar(5)"}
_GROUPED = """
    SELECT t.typname FROM pg_type AS t
     WHERE t.typnamespace = 'pg_catalog'::regnamespace AND t.typelem = 0
       AND t.typtype IN ('b', 'r', 'm') AND EXISTS (
           SELECT FROM pg_opclass AS o JOIN pg_am AS m ON m.oid = o.opcmethod
            WHERE o.opcdefault AND m.amname IN ('btree', 'hash')
              AND (o.opcintype = t.oid
                   OR o.opcintype = CASE t.typtype WHEN 'r' THEN 'anyrange'::regtype
                                                   WHEN 'm' THEN 'anymultirange'::regtype END
                   OR EXISTS (SELECT FROM pg_cast AS c WHERE c.castsource = t.oid
                                 AND c.casttarget = o.opcintype AND c.castmethod = 'b'
                                 AND c.castcontext = 'i')))
"""
_USERS_TYPES = (
    "CREATE TYPE mood AS ENUM ('sad', 'glad')",
    "CREATE DOMAIN code AS char(4)",
    "CREATE DOMAIN codes AS char(3)[]",
    "CREATE TYPE pair AS (a int, b text)",
    "CREATE TYPE floatrange AS RANGE (subtype = float8)",
    "CREATE SCHEMA other",
    "CREATE TYPE other.date AS ENUM ('monday', 'tuesday')",
)


def _table(lab: Lab, type_: str) -> None:
    me = lab.value("SELECT quote_ident(current_user)")
    first, second = (one.replace("{me}", me) for one in _TYPES[type_])
    lab.run(
        *_USERS_TYPES,
        f"CREATE TABLE t (id int PRIMARY KEY, c {type_})",
        f"INSERT INTO t VALUES (1, {first}), (2, {second}), (3, NULL), (4, {first})",
    )


def test_every_type_of_postgresql_that_can_be_grouped_by_is_among_them(lab: Lab):
    grouped = {name for (name,) in lab.rows(_GROUPED)}

    assert "int4range" in grouped
    assert {_SPELLED.get(one, one) for one in grouped - _INTERNAL} <= _TYPES.keys()


@pytest.mark.parametrize("type_", _TYPES)
def test_type_in_grouping_sets_and_outer_joins(lab: Lab, type_: str):
    _table(lab, type_)
    lab.create("rolled", "SELECT c, count(*) AS n FROM t GROUP BY ROLLUP (c)")
    lab.create(
        "cubed", "SELECT c, id, GROUPING(c) AS g, count(*) AS n FROM t GROUP BY CUBE (c, id)"
    )
    lab.create("padded", "SELECT l.id, r.c FROM t AS l LEFT JOIN t AS r ON r.id = l.id + 1")
    lab.create(
        "counted",
        "SELECT r.c, count(*) AS n FROM t AS l LEFT JOIN t AS r ON r.id = l.id + 1 GROUP BY r.c",
    )

    for change in _CHANGES:
        lab.window(change)


@pytest.mark.parametrize("type_", _TYPES)
def test_type_as_the_key_of_a_full_join(lab: Lab, type_: str):
    _table(lab, type_)
    lab.run("CREATE TABLE u AS SELECT id * 2 AS id, c FROM t")
    lab.create("joined", "SELECT c, t.id AS left, u.id AS right FROM t FULL JOIN u USING (c)")

    for change in _CHANGES:
        lab.window(change)


@pytest.mark.parametrize("join", ["JOIN", "LEFT JOIN", "FULL JOIN"])
def test_join_by_a_type_without_a_faithful_comparison_is_left_to_postgresql(lab: Lab, join: str):
    listed = ", ".join(f"c{number} {type_}" for number, type_ in enumerate(_NOT_JOINED))
    lab.run(*_USERS_TYPES)
    lab.run(f"CREATE TABLE t (id int PRIMARY KEY, {listed})")

    for number, told in enumerate(_NOT_JOINED.values()):
        query = f"SELECT l.id FROM t AS l {join} t AS r ON r.c{number} = l.c{number}"
        staged = compile_query(lab.connection, query).staged
        assert f"values of type {told} cannot be compared across tables" in set(
            staged.only_postgres.values()
        )


def test_groups_by_a_composite_type_without_one_text_are_refused_by_its_name(lab: Lab):
    lab.run(
        *_USERS_TYPES,
        "CREATE DOMAIN share AS double precision",
        "CREATE TYPE portion AS (a int, shares share[])",
        "CREATE TABLE t (id int PRIMARY KEY, c portion)",
    )

    with pytest.raises(UnsupportedQueryError) as caught:
        lab.create("rolled", "SELECT c, count(*) AS n FROM t GROUP BY ROLLUP (c)")

    assert str(caught.value) == "no delta rule for groups by the composite type public.portion"


def test_domain_that_takes_no_null_is_an_error_of_the_data(lab: Lab):
    lab.run(
        "CREATE DOMAIN positive AS int NOT NULL CHECK (VALUE > 0)",
        "CREATE TABLE t (id int PRIMARY KEY, c positive)",
        "INSERT INTO t VALUES (1, 5)",
    )

    with pytest.raises(DataError) as caught:
        lab.create("rolled", "SELECT c, count(*) AS n FROM t GROUP BY ROLLUP (c)")

    assert "positive" in caught.value.detail
