"""Random histories of a small shop: what the property test of the whole line draws from."""

from __future__ import annotations

from hypothesis import strategies as st

SCHEMA = (
    "CREATE TABLE IF NOT EXISTS c (id int PRIMARY KEY, region text, score numeric(12,2))",
    "CREATE TABLE IF NOT EXISTS o"
    " (id int PRIMARY KEY, c_id int, qty int, note text, price numeric)",
    "CREATE TABLE IF NOT EXISTS l (o_id int, n bigint, tag text)",  # no key: duplicates are welcome
    "CREATE OR REPLACE FUNCTION chain_step(text, text) RETURNS text IMMUTABLE LANGUAGE sql"
    " AS $$ SELECT concat($1, '>', $2) $$",
    "CREATE OR REPLACE AGGREGATE chain(text) (sfunc = chain_step, stype = text)",
    "CREATE OR REPLACE VIEW big AS SELECT id, c_id, qty * 2 AS twice FROM o WHERE qty > 1",
)
TABLES = ("c", "o", "l")

QUERIES = (
    "SELECT id, upper(note) AS note FROM o WHERE qty > 1 OR note IS NULL",
    "SELECT o_id, n, tag FROM l",
    "SELECT o.id, o.qty, c.region FROM o JOIN c ON c.id = o.c_id",
    "SELECT o.id, c.region, l.tag FROM o JOIN c ON c.id = o.c_id JOIN l ON l.o_id = o.id"
    " WHERE l.n >= o.qty",
    "SELECT a.id AS one, b.id AS two FROM o AS a JOIN o AS b ON b.c_id = a.c_id AND a.id < b.id",
    "SELECT c.region, count(*) AS n, sum(o.qty) AS qty, avg(o.price) AS price, min(o.note) AS low,"
    " max(l.n) AS high FROM c JOIN o ON o.c_id = c.id JOIN l ON l.o_id = o.id GROUP BY c.region",
    "SELECT c_id, sum(price) AS price, count(DISTINCT note) AS notes,"
    " count(*) FILTER (WHERE qty > 1) AS big FROM o GROUP BY c_id HAVING count(*) > 1",
    "SELECT count(*) AS n, sum(n) AS s, max(tag) AS t FROM l",
    "SELECT c_id, chain(note) AS notes, chain(DISTINCT note) FILTER (WHERE qty > 0) AS some,"
    " bool_or(qty > 1) AS many, every(note = 'x') AS all_x FROM o GROUP BY c_id",
    "SELECT o.c_id, stddev(o.qty) AS spread, var_pop(c.score) AS scores, bool_and(c.score > 1) AS"
    " high, chain(c.region) AS regions FROM o JOIN c ON c.id = o.c_id GROUP BY o.c_id",
    "SELECT DISTINCT c.region, o.note FROM o JOIN c ON c.id = o.c_id",
    "SELECT c_id AS k, note AS t FROM o UNION ALL SELECT o_id, tag FROM l"
    " UNION ALL SELECT id, region FROM c",
    "WITH per AS (SELECT c_id, sum(qty) AS total FROM o GROUP BY c_id)"
    " SELECT total, count(*) AS members FROM per GROUP BY total",
    "SELECT b.id, b.twice, s.n FROM big AS b JOIN (SELECT o_id, count(*) AS n FROM l GROUP BY o_id)"
    " AS s ON s.o_id = b.id",
    "SELECT t, count(*) AS n FROM (SELECT note AS t FROM o UNION ALL SELECT tag FROM l) AS u"
    " GROUP BY t",
    "SELECT c.id, c.score * o.qty AS value, l.tag || o.note AS label FROM c, o, l"
    " WHERE c.id = o.c_id AND l.o_id = o.id AND c.score > o.qty",
)

_ids = st.integers(1, 4)
_small = st.one_of(st.none(), st.integers(0, 3))
_words = st.one_of(st.none(), st.sampled_from(["", "x", "y", "X", "it's", "a\\b"]))
_numbers = st.one_of(st.none(), st.sampled_from(["0.50", "2", "2.00", "-1.5", "12345678.9"]))


def _literal(value: object) -> str:
    if value is None:
        return "NULL"
    text = str(value).replace("'", "''")
    return f"'{text}'"


def _list(*values: object) -> str:
    return ", ".join(map(_literal, values))


_customers = st.builds(_list, _ids, _words, _numbers)
_orders = st.builds(_list, _ids, _small, _small, _words, _numbers)
_lines = st.builds(_list, _small, _small, _words)


def _insert(table: str, row: str) -> str:
    conflict = "" if table == "l" else " ON CONFLICT DO NOTHING"
    return f"INSERT INTO {table} VALUES ({row}){conflict}"


_inserts = st.one_of(
    st.builds(_insert, st.just("c"), _customers),
    st.builds(_insert, st.just("o"), _orders),
    st.builds(_insert, st.just("l"), _lines),
)
_updates = st.one_of(
    st.builds(lambda v, k: f"UPDATE c SET region = {_literal(v)} WHERE id = {k}", _words, _ids),
    st.builds(lambda v, k: f"UPDATE o SET c_id = {_literal(v)} WHERE id = {k}", _small, _ids),
    st.builds(lambda v, k: f"UPDATE o SET qty = {_literal(v)}, price = qty WHERE c_id = {k}",
              _small, _ids),
    st.builds(lambda v, k: f"UPDATE l SET tag = {_literal(v)} WHERE o_id = {k}", _words, _ids),
    st.builds(lambda v: f"UPDATE l SET o_id = {_literal(v)}", _small),
    # Key changes, by a distance that cannot collide.
    st.builds(lambda t, k: f"UPDATE {t} SET id = id + 10 WHERE id = {k} AND NOT EXISTS"
              f" (SELECT FROM {t} WHERE id = {k} + 10)", st.sampled_from("co"), _ids),
    st.builds(lambda t: f"UPDATE {t} SET id = id - 10 WHERE id > 10 AND id - 10 NOT IN"
              f" (SELECT id FROM {t})", st.sampled_from("co")),
)  # fmt: skip
_deletes = st.one_of(
    st.builds(lambda t, k: f"DELETE FROM {t} WHERE id = {k}", st.sampled_from("co"), _ids),
    st.builds(lambda k: f"DELETE FROM l WHERE o_id = {k}", _ids),
    st.just("DELETE FROM l WHERE ctid IN (SELECT min(ctid) FROM l)"),
    st.builds(lambda t: f"DELETE FROM {t}", st.sampled_from(TABLES)),
)
_co_deletes = st.builds(
    lambda k: (f"UPDATE o SET c_id = c_id + 1 WHERE c_id = {k}; DELETE FROM c WHERE id = {k};"
               f" DELETE FROM l WHERE o_id = {k}"), _ids
)  # fmt: skip

starts = st.lists(_inserts, max_size=14)
windows = st.lists(
    st.lists(st.one_of(_inserts, _inserts, _updates, _deletes, _co_deletes), max_size=7),
    min_size=4,
    max_size=4,
)
