"""Aggregates of every kind that a user can define, over built-in and own functions."""

from __future__ import annotations

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
