"""SQL/JSON, table functions and other syntax that only PostgreSQL knows (docs/sql-support.md)."""

from __future__ import annotations

import pytest

from pgtrickle.errors import UnsupportedQueryError
from tests.labs.lab import Lab

_SETUP = (
    "CREATE TABLE t (id int PRIMARY KEY, k int, n int, name text, tags text[], more int[],"
    " doc jsonb, raw text)",
    "INSERT INTO t SELECT i, i % 3, nullif(i % 4, 0), nullif('n' || i % 5, 'n2'),"
    " ARRAY['a', chr(96 + i % 3)], ARRAY[i, i + 1, i + 2],"
    " jsonb_build_object('a', i, 'b', jsonb_build_array(i, i + 1),"
    " 'c', jsonb_build_array(jsonb_build_object('x', i, 'y', 'z' || i))),"
    """ (ARRAY['{"a": 1}', '[1,2]', 'none'])[i % 3 + 1] FROM generate_series(1, 12) AS i""",
    "CREATE TABLE u (k int, w numeric, doc jsonb)",
    """INSERT INTO u VALUES (0, 1.5, '{"a": 5}'), (1, 2.5, '{"a": 7}'), (NULL, 3, NULL)""",
)
_CHANGES = (
    "INSERT INTO t SELECT id + 20, k, n, name || 'x', tags || 'q'::text, more || 9,"
    """ doc || '{"a": 77}', raw FROM t WHERE id < 4""",
    """UPDATE t SET n = 2, name = 'new', raw = '{"z": 1, "z": 2}', more = '{4}',"""
    """ doc = jsonb_set(doc, '{c}', '[{"x": 1, "y": null}, {"x": 2}]') WHERE id % 4 = 1""",
    "DELETE FROM t WHERE id % 5 = 0",
)
# The version of PostgreSQL that has it, and the query.
_QUERIES = {
    "JSON_OBJECT": (16, "SELECT id, JSON_OBJECT('id': id, 'name': name)::text AS j FROM t"),
    "JSON_OBJECT with options": (
        16,
        "SELECT id, JSON_OBJECT('id' VALUE id, upper(name || '!') VALUE n ABSENT ON NULL"
        " WITH UNIQUE KEYS RETURNING jsonb) AS j FROM t WHERE name IS NOT NULL",
    ),
    "JSON_OBJECT of nothing": (16, "SELECT id, JSON_OBJECT(RETURNING jsonb) AS j FROM t"),
    "JSON_ARRAY": (
        16,
        "SELECT id, JSON_ARRAY(id, name, n NULL ON NULL RETURNING jsonb) AS j,"
        " JSON_ARRAY(name, JSON_OBJECT('k': k))::text AS l FROM t",
    ),
    "JSON_SCALAR, JSON_SERIALIZE, JSON": (
        17,
        "SELECT id, JSON_SCALAR(name)::text AS j, JSON_SERIALIZE(doc) AS s, JSON(raw)::text AS p"
        " FROM t WHERE raw IS JSON",
    ),
    "JSON_QUERY": (17, "SELECT id, JSON_QUERY(doc, '$.b' WITH WRAPPER) AS j FROM t"),
    "JSON_VALUE": (
        17,
        "SELECT id, JSON_VALUE(doc, '$.a' RETURNING int DEFAULT 0 ON EMPTY ERROR ON ERROR) AS j,"
        " JSON_VALUE(doc, '$.a' RETURNING numeric(5, 2)) AS p FROM t",
    ),
    "JSON_VALUE with PASSING": (
        17,
        "SELECT id, JSON_VALUE(doc, '$.b[$i]' PASSING n - 1 AS i, k AS x RETURNING int) AS j"
        " FROM t",
    ),
    "JSON_VALUE as a group": (
        17,
        "SELECT JSON_VALUE(doc, '$.a' RETURNING int) % 3 AS g, count(*) AS n FROM t GROUP BY 1",
    ),
    "JSON_VALUE as a key": (
        17,
        "SELECT t.id, u.w FROM t JOIN u ON JSON_VALUE(t.doc, '$.a' RETURNING int)"
        " = JSON_VALUE(u.doc, '$.a' RETURNING int)",
    ),
    "JSON_EXISTS": (
        17,
        "SELECT id FROM t WHERE JSON_EXISTS(doc, '$.a ? (@ > $x)' PASSING 5 AS x)",
    ),
    "JSON_EXISTS over two tables": (
        17,
        "SELECT t.id, u.w FROM t JOIN u ON JSON_EXISTS(t.doc, '$.a ? (@ > $x)' PASSING u.w AS x)",
    ),
    "IS JSON": (
        16,
        "SELECT id, raw IS JSON AS a, raw IS JSON OBJECT AS b, raw IS NOT JSON ARRAY AS c,"
        " raw IS JSON SCALAR AS d FROM t",
    ),
    "IS JSON WITH UNIQUE KEYS": (
        16,
        "SELECT id FROM t WHERE raw IS JSON OBJECT WITH UNIQUE KEYS OR NOT raw || ' ' IS JSON",
    ),
    "JSON_TABLE": (
        17,
        "SELECT t.id, j.o, j.x, j.y FROM t, JSON_TABLE(t.doc, '$.c[*]' COLUMNS ("
        " o FOR ORDINALITY, x int PATH '$.x', y text PATH '$.y' DEFAULT 'none' ON EMPTY)) AS j",
    ),
    "JSON_TABLE with nested columns": (
        17,
        "SELECT t.id, j.passing, j.b FROM t LEFT JOIN JSON_TABLE(t.doc, '$' AS root PASSING t.n AS"
        " lim COLUMNS (passing int PATH '$.a', NESTED PATH '$.b[*] ? (@ > $lim)' COLUMNS ("
        "b numeric(5, 1) PATH '$'))) AS j ON true",
    ),
    "JSON_TABLE, joined and grouped": (
        17,
        "WITH j AS (SELECT t.id, j.* FROM t, JSON_TABLE(t.doc, '$.b[*]' COLUMNS (b int PATH '$',"
        " e boolean EXISTS PATH '$.z', f jsonb FORMAT JSON PATH '$' WITH WRAPPER)) AS j)"
        " SELECT j.b % 4 AS g, sum(u.w) AS w, count(*) AS n FROM j LEFT JOIN u ON u.k = j.b % 4"
        " GROUP BY 1",
    ),
    "ROWS FROM": (
        15,
        "SELECT t.id, r.tag, r.m, r.o FROM t,"
        " ROWS FROM (unnest(t.tags), generate_series(1, t.n)) WITH ORDINALITY AS r (tag, m, o)",
    ),
    "ROWS FROM of arrays": (
        15,
        "SELECT t.id, r.tag, r.m FROM t, ROWS FROM (unnest(t.tags), unnest(t.more)) AS r (tag, m)",
    ),
    "WITH ORDINALITY": (
        15,
        "SELECT t.id, r.key, r.value, r.ordinality FROM t, jsonb_each(t.doc) WITH ORDINALITY AS r",
    ),
    "WITH ORDINALITY under LEFT JOIN": (
        15,
        "SELECT t.id, r.v, r.ordinality FROM t LEFT JOIN LATERAL generate_series(t.n, 3)"
        " WITH ORDINALITY AS r (v) ON true",
    ),
    "bit strings of any length": (
        15,
        "SELECT id, B'101' AS b, id::bit(8) AS c, id::bit(8) & B'00000101' AS d FROM t",
    ),
    "the operator @": (15, "SELECT id, @ (n - 3) AS a, abs(@ (n - 3) - k) AS b FROM t"),
    "the alias of USING": (15, "SELECT x.k, t.id, u.w FROM t JOIN u USING (k) AS x"),
    "the alias of USING of a FULL JOIN": (
        15,
        "SELECT x.k, t.id, u.w FROM t FULL JOIN u USING (k) AS x WHERE x.k > 0 OR t.id IS NULL",
    ),
    "SIMILAR in SUBSTRING": (
        15,
        """SELECT id, substring(name SIMILAR 'n#"_#"' ESCAPE '#') AS s,"""
        " substring(raw FROM 2 FOR 3) AS f, substring(name, 2) AS c,"
        " substring(raw FROM '[a-z]+') AS r FROM t"
        """ WHERE substring(name || k SIMILAR 'n#"%#"_' ESCAPE '#') <> '3'""",
    ),
    "NORMALIZE and IS NORMALIZED": (
        15,
        "SELECT id, normalize(name || chr(776), nfkc) AS n, normalize(raw) AS r,"
        " name || chr(776) IS NOT NFC NORMALIZED AS x, raw IS NORMALIZED AS y FROM t",
    ),
    "COLLATION FOR": (
        15,
        'SELECT id, collation FOR (name || raw COLLATE "C") AS c, count(*) OVER'
        " (PARTITION BY collation FOR (name), k) AS n FROM t",
    ),
    "AT LOCAL": (
        17,
        "SELECT id, (timestamptz '2026-01-01 12:00+00' + k * interval '1 day') AT LOCAL AS l,"
        " timestamp '2026-01-01' AT LOCAL AS m FROM t",
    ),
    "GROUPS with EXCLUDE": (
        15,
        "SELECT id, count(*) OVER (PARTITION BY k ORDER BY n GROUPS BETWEEN 1 PRECEDING AND"
        " 1 FOLLOWING EXCLUDE CURRENT ROW) AS a, sum(id) OVER (ORDER BY n GROUPS CURRENT ROW"
        " EXCLUDE GROUP) AS b, sum(id) OVER w AS c FROM t"
        " WINDOW w AS (ORDER BY n GROUPS UNBOUNDED PRECEDING EXCLUDE TIES)",
    ),
}
# Aggregates of SQL/JSON: with every clause, and where the order of their values is left open.
_AGGREGATES = {
    "JSON_OBJECTAGG": "SELECT k, JSON_OBJECTAGG(id: name)::text AS j FROM t GROUP BY k",
    "JSON_OBJECTAGG with options": "SELECT k, JSON_OBJECTAGG(('n' || id) VALUE n ABSENT ON NULL"
    " WITH UNIQUE KEYS RETURNING jsonb) AS j FROM t GROUP BY k",
    "JSON_OBJECTAGG with equal keys": "SELECT k, JSON_OBJECTAGG(n: name RETURNING jsonb) AS j"
    " FROM t WHERE n IS NOT NULL GROUP BY k",
    "JSON_OBJECTAGG as a text": "SELECT k, JSON_OBJECTAGG(id: name RETURNING text) FILTER"
    " (WHERE n > 1) AS j FROM t GROUP BY k HAVING count(*) > 1",
    "JSON_OBJECTAGG of JSON": "SELECT k, JSON_OBJECTAGG(id: raw FORMAT JSON)::text AS j FROM t"
    " WHERE raw IS JSON GROUP BY k",
    "JSON_ARRAYAGG": "SELECT k, JSON_ARRAYAGG(name)::text AS j FROM t GROUP BY k",
    "JSON_ARRAYAGG in an order": "SELECT k, JSON_ARRAYAGG(n ORDER BY n DESC NULLS LAST, id"
    " NULL ON NULL RETURNING jsonb) AS j FROM t GROUP BY k",
    "JSON_ARRAYAGG with ties": "SELECT k, JSON_ARRAYAGG(id + 1 ORDER BY n RETURNING text) AS j,"
    " count(*) AS c FROM t GROUP BY k",
    "JSON_ARRAYAGG of any length": "SELECT k, JSON_ARRAYAGG(n ORDER BY id"
    " RETURNING varchar(200)) AS j FROM t GROUP BY k",
    "JSON_ARRAYAGG of JSON": "SELECT JSON_ARRAYAGG(raw FORMAT JSON ORDER BY id)::text AS j FROM t"
    " WHERE raw IS JSON",
    "JSON_ARRAYAGG over a join": "SELECT u.w, JSON_ARRAYAGG(t.name || u.w)::text AS j FROM t"
    " JOIN u USING (k) GROUP BY ROLLUP (u.w)",
    "JSON_ARRAYAGG of objects": "SELECT k, JSON_ARRAYAGG(JSON_OBJECT('id': id, 'n': n)"
    " ORDER BY id)::text AS j FROM t GROUP BY k",
    "JSON_ARRAYAGG over a partition": "SELECT id, JSON_ARRAYAGG(id RETURNING jsonb)"
    " OVER (PARTITION BY k ORDER BY id) AS j FROM t",
    "JSON_ARRAY of a query": "SELECT w, JSON_ARRAY(SELECT id FROM t WHERE t.k = u.k)::text AS j"
    " FROM u",
    "JSON_ARRAY of a query in an order": "SELECT w, JSON_ARRAY(SELECT name FROM t WHERE t.k = u.k"
    " ORDER BY n DESC, id + 1 LIMIT 4 RETURNING jsonb) AS j FROM u",
    "JSON_ARRAY of a union": "SELECT JSON_ARRAY(SELECT k FROM t UNION SELECT k FROM u"
    " ORDER BY 1 DESC NULLS LAST)::text AS j FROM u WHERE w > 2",
    "json_agg_strict": "SELECT k, json_agg_strict(n)::text AS a, jsonb_agg_strict(n ORDER BY id)"
    " AS b, json_object_agg_strict(id, n)::text AS c, jsonb_object_agg_unique(id, n) AS d,"
    " json_object_agg_unique_strict(id, n)::text AS e FROM t GROUP BY k",
    "in a view": "SELECT k, j FROM listed",
}


@pytest.fixture
def documents(lab: Lab) -> Lab:
    lab.run(*_SETUP)
    return lab


def require(lab: Lab, version: int) -> None:
    if lab.value("SHOW server_version_num") < f"{version}0000":
        pytest.skip(f"PostgreSQL {version} has it")


@pytest.mark.parametrize(("version", "query"), _QUERIES.values(), ids=_QUERIES.keys())
def test_syntax_is_maintained_incrementally(documents: Lab, version: int, query: str) -> None:
    require(documents, version)
    documents.create("s", query)

    assert documents.trickle.validate_query(query).differential
    for statement in _CHANGES:
        documents.window(statement)


@pytest.mark.parametrize("query", _AGGREGATES.values(), ids=_AGGREGATES.keys())
@pytest.mark.parametrize("mode", ["DIFFERENTIAL", "IMMEDIATE"])
def test_an_aggregate_of_json_is_maintained(lab: Lab, query: str, mode: str) -> None:
    require(lab, 16)
    lab.run(
        *_SETUP,
        "CREATE VIEW listed AS SELECT k, JSON_ARRAYAGG(name ORDER BY id RETURNING jsonb) AS j"
        " FROM t GROUP BY k",
    )
    lab.create("s", query, mode=mode)

    for statement in (*_CHANGES, "UPDATE u SET w = w + 1, k = k + 1"):
        lab.run(statement)
        if mode == "DIFFERENTIAL":
            lab.refresh("s", "NO_DATA" if " u " in statement and " u" not in query else mode)
        lab.check("s")


def test_json_array_of_a_query_lists_in_its_order(documents: Lab) -> None:
    require(documents, 16)
    query = "SELECT w, JSON_ARRAY(SELECT name FROM t WHERE t.k = u.k ORDER BY id DESC)::text FROM u"
    documents.create("s", query)

    assert documents.rows("SELECT * FROM s") == documents.rows(query)


def test_xmltable_is_read_and_written(lab: Lab) -> None:
    lab.run("CREATE TABLE t (id int, page xml)")
    query = (
        "SELECT t.id, x.o, x.v, x.b FROM t, XMLTABLE(XMLNAMESPACES('http://a' AS a), '/r/i'"
        " PASSING t.page COLUMNS o FOR ORDINALITY, v int PATH '@v' DEFAULT 7,"
        " b text PATH '.' NOT NULL) AS x"
    )
    lab.create("s", query)

    assert lab.trickle.validate_query(query).differential
    assert "XMLTABLE" in lab.trickle.explain_stream_table("s").upper()


_UNREAD = {
    "the fields of an interval": ("SELECT id, interval '1 02:03:04.5' day to second(1) AS i FROM t",
                                  "second"),
    "column definitions in ROWS FROM": (
        "SELECT t.id, r.a FROM t, ROWS FROM (jsonb_to_recordset(t.doc -> 'c') AS (x int),"
        " unnest(t.more)) AS r (a, m)", "ROWS FROM"),
}  # fmt: skip


@pytest.mark.parametrize(("query", "word"), _UNREAD.values(), ids=_UNREAD.keys())
def test_syntax_without_a_rule_is_refused_by_name_and_recomputed(
    documents: Lab, query: str, word: str
) -> None:
    with pytest.raises(UnsupportedQueryError) as caught:
        documents.create("s", query)
    said = f"{caught.value} {caught.value.detail}"
    assert word in said
    assert "refresh_mode = 'FULL'" in caught.value.hint
    assert not [one for one in ("Expecting", "Col:", "Invalid", "sqlglot") if one in said]

    documents.create("s", query, mode="AUTO")
    documents.window(_CHANGES[1], action="FULL")
