"""Aggregates of every kind that a user can define, over built-in and own functions."""

from __future__ import annotations

from tests.labs.lab import Lab

AGGREGATES = (
    # Depends on the order of its values, and keeps NULLs.
    "CREATE FUNCTION chain_step(text, text) RETURNS text IMMUTABLE LANGUAGE sql"
    " AS $$ SELECT coalesce($1 || '>', '') || coalesce($2, '?') $$",
    "CREATE AGGREGATE chain(text) (sfunc = chain_step, stype = text)",
    # Strict and without an initial state: the first value that is not NULL.
    "CREATE FUNCTION keep_first(anyelement, anyelement) RETURNS anyelement IMMUTABLE STRICT"
    " LANGUAGE sql AS 'SELECT $1'",
    "CREATE AGGREGATE first_of(anyelement) (sfunc = keep_first, stype = anyelement)",
    # With an inverse and a combine function.
    "CREATE AGGREGATE own_total(numeric) (sfunc = numeric_add, stype = numeric, initcond = '0',"
    " msfunc = numeric_add, minvfunc = numeric_sub, mstype = numeric, minitcond = '0',"
    " combinefunc = numeric_add, parallel = safe)",
    # Several arguments, and a final function.
    "CREATE FUNCTION weigh_step(numeric[], numeric, int) RETURNS numeric[] IMMUTABLE LANGUAGE sql"
    " AS $$ SELECT CASE WHEN $2 IS NULL OR $3 IS NULL THEN $1"
    " ELSE ARRAY[$1[1] + $2 * $3, $1[2] + $3] END $$",
    "CREATE FUNCTION weigh_end(numeric[]) RETURNS numeric IMMUTABLE LANGUAGE sql"
    " AS $$ SELECT round($1[1] / nullif($1[2], 0), 4) $$",
    "CREATE AGGREGATE weighted(numeric, int) (sfunc = weigh_step, stype = numeric[],"
    " finalfunc = weigh_end, initcond = '{0,0}')",
    # No argument, a variable number of them, and an ordered set.
    "CREATE FUNCTION one_more(bigint) RETURNS bigint IMMUTABLE LANGUAGE sql AS 'SELECT $1 + 1'",
    "CREATE AGGREGATE rows_seen(*) (sfunc = one_more, stype = bigint, initcond = '0')",
    "CREATE FUNCTION widest(int, VARIADIC int[]) RETURNS int IMMUTABLE LANGUAGE sql"
    " AS $$ SELECT greatest($1, (SELECT max(x) FROM unnest($2) AS x)) $$",
    "CREATE AGGREGATE widest_of(VARIADIC int[]) (sfunc = widest, stype = int)",
    "CREATE AGGREGATE own_disc(float8 ORDER BY anyelement) (sfunc = ordered_set_transition,"
    " stype = internal, finalfunc = percentile_disc_final, finalfunc_extra)",
    # Names that PostgreSQL and the parser use for something else.
    "CREATE SCHEMA own",
    "CREATE AGGREGATE own.sum(int) (sfunc = int4pl, stype = int, initcond = '100')",
    "CREATE AGGREGATE own.every(bool) (sfunc = boolor_statefunc, stype = bool)",
    "CREATE AGGREGATE own.string_agg(text) (sfunc = textcat, stype = text, initcond = '')",
    'CREATE AGGREGATE own."Odd (name"(int) (sfunc = int4larger, stype = int)',
)
CALLS = {
    "depends on the order": "chain(t) AS x",
    "with an order": "chain(t ORDER BY n DESC, id) AS x, chain(t ORDER BY n) AS y",
    "distinct": "chain(DISTINCT t) AS x, own_total(DISTINCT p) AS y,"
    " weighted(DISTINCT p, n ORDER BY p, n) AS z",
    "of any type": "first_of(n) AS x, first_of(t) AS y, first_of(ARRAY[n, id]) AS z",
    "of a type without an order": "first_of(point(n, id))::text AS x",
    "with an inverse": "own_total(p) AS x, own_total(n * 2) AS y, own_total(7) AS z",
    "of two arguments": "weighted(p, n) AS x, weighted(p, id ORDER BY id) AS y",
    "of no argument": "rows_seen(*) AS x, rows_seen(*) FILTER (WHERE n > 1) AS y",
    "of any number": "widest_of(n, id, 3) AS x, widest_of(VARIADIC ARRAY[n, id]) AS y",
    "within a group": "own_disc(0.5) WITHIN GROUP (ORDER BY p) AS x,"
    " own_disc(0.2) WITHIN GROUP (ORDER BY t) FILTER (WHERE n > 0) AS y",
    "with a condition": "chain(t) FILTER (WHERE b) AS x, own_total(p) FILTER (WHERE n > 1) AS y",
    "inside expressions": "coalesce(chain(t), '-') || count(*) AS x,"
    " own_total(p) - sum(p) AS y, (own_total(n) FILTER (WHERE b))::text AS z",
    "under the names of others": "own.sum(n) AS x, own.every(b) AS y, own.string_agg(t) AS z,"
    ' own."Odd (name"(n) AS q',
}
WINDOWS = (
    ("INSERT INTO r SELECT id + 100, k, n, p, b, t FROM r WHERE id < 8",),
    ("UPDATE r SET n = n + 1, p = p / 3, t = t || 'x', k = 1 WHERE id % 5 = 0",),
    ("DELETE FROM r WHERE k = 2", "UPDATE r SET b = NOT b, t = NULL WHERE id < 4"),
    ("DELETE FROM r WHERE id > 3", "INSERT INTO r VALUES (50, 2, 1, 1, NULL, 'z')"),
    ("DELETE FROM r",),
    ("INSERT INTO r VALUES (1, 0, NULL, NULL, NULL, NULL), (2, 1, 1, 0.50, true, 'a')",),
)


def fill(lab: Lab) -> Lab:
    """Create the aggregates and a table to call them over."""
    lab.run(
        *AGGREGATES,
        "CREATE TABLE r (id int PRIMARY KEY, k int, n int, p numeric, b bool, t text)",
        "INSERT INTO r SELECT i, i % 3, i % 4, i * 1.25, i % 2 = 0, chr(96 + i % 5)"
        " FROM generate_series(1, 20) AS i",
        "INSERT INTO r VALUES (21, 0, NULL, NULL, NULL, NULL), (22, 7, NULL, 1, true, '')",
    )
    return lab
