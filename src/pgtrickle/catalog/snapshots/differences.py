"""Compare two snapshots of a stream table, or one with the present rows: PostgreSQL does it.

The functions are one of the files of ``sql_api``: see ``migrate.py``.  They are made here, because
rows are told apart by the same rules as everywhere: see ``identity`` in
``model/text/comparable.py``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from decimal import Decimal
from typing import NamedTuple

from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.model.table_snapshot import RowChange, SnapshotDiff
from pgtrickle.model.text.comparable import AS_TEXT, LOOKS_DIFFERENT
from pgtrickle.model.text.names import QualifiedName, quote_literal
from pgtrickle.model.text.output_text import MADE_BY_USERS

_FILE = r"""-- Differences of snapshots; made by catalog/snapshots/differences.py

-- Tells no more than list_snapshots; whoever compares has to be able to read the tables.
CREATE OR REPLACE FUNCTION pgtrickle.find_snapshot(name text, schemas name[])
RETURNS TABLE (stream_table bigint, query text, relation oid, present_query text, present oid)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    parts text[];
BEGIN
    IF octet_length(find_snapshot.name) > 1024 OR cardinality(schemas) > 1000 THEN
        RAISE EXCEPTION 'a name of % bytes cannot name a snapshot',
              octet_length(find_snapshot.name)
              USING ERRCODE = 'ST208', HINT = 'Write schema.name; each has 63 bytes at most.';
    END IF;
    parts := parse_ident(find_snapshot.name);
    RETURN QUERY
        SELECT s.pgt_id, n.defining_query, t.relid, s.defining_query,
               to_regclass(format('%I.%I', coalesce(r.new_schema, s.pgt_schema),
                                  coalesce(r.new_name, s.pgt_name)))::oid
          FROM pgtrickle.locate_snapshots() AS t
          JOIN pgtrickle.pgt_snapshots AS n USING (snapshot_id)
          JOIN pgtrickle.pgt_stream_tables AS s USING (pgt_id)
          LEFT JOIN pgtrickle.list_renamed() AS r USING (pgt_id)
         WHERE t.table_name = parts[cardinality(parts)]
           AND CASE cardinality(parts) WHEN 1 THEN t.schema_name = ANY (schemas::text[])
                                       WHEN 2 THEN t.schema_name = parts[1] END
         ORDER BY array_position(schemas::text[], t.schema_name)
         LIMIT 1;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no snapshot "%"', find_snapshot.name
              USING ERRCODE = 'ST218', HINT = 'List them with: pgtrickle snapshot list.';
    END IF;
END
$$;

COMMENT ON FUNCTION pgtrickle.find_snapshot(text, name[]) IS
    'The table of a snapshot and its stream table.';

-- For each stored column: its type; the expressions that agree only for values that are equal and
-- look the same; and how the first of them, in place of %1$s, is shown as JSON.  No cast that an
-- ordinary role could have made is called.
CREATE OR REPLACE FUNCTION pgtrickle.list_identities(relation oid)
RETURNS TABLE (column_name text, form text, keys text[], shown text)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    WITH RECURSIVE typed AS (
        SELECT a.attnum, a.attname, a.atttypid, a.atttypmod, a.attcollation,
               a.atttypid AS base, a.atttypmod AS modifier
          FROM pg_attribute AS a
         WHERE a.attrelid = list_identities.relation AND a.attnum > 0
           AND NOT a.attisdropped AND a.attgenerated = ''
        UNION ALL
        SELECT d.attnum, d.attname, d.atttypid, d.atttypmod, d.attcollation, t.typbasetype,
               CASE WHEN d.modifier >= 0 THEN d.modifier ELSE t.typtypmod END
          FROM typed AS d JOIN pg_type AS t ON t.oid = d.base AND t.typtype = 'd'
    ), described AS (
        SELECT d.*, format_type(d.atttypid, d.atttypmod) AS display, t.typcategory AS category,
               CASE WHEN t.typnamespace = 'pg_catalog'::regnamespace
                    THEN t.typname::text END AS builtin
          FROM typed AS d JOIN pg_type AS t ON t.oid = d.base AND t.typtype <> 'd'
    ), written AS (
        SELECT d.*, format('%I', d.attname) AS plain,
               CASE WHEN strpos(d.display, '.') > 0 AND d.category IN ({made_by_users})
                    THEN 'CASE WHEN %1$s IS DISTINCT FROM NULL THEN concat(%1$s) END'
                    ELSE '%1$s::text' END AS output
          FROM described AS d
    )
    SELECT w.attname::text,
           w.display
               || coalesce(' COLLATE ' || nullif(w.attcollation, 0)::regcollation::text, ''),
           CASE WHEN w.builtin = 'numeric' AND w.modifier < 4
                THEN ARRAY[w.plain, format('scale(%s)', w.plain)]
                WHEN w.builtin IN ({looks_different})
                THEN ARRAY[w.plain, format(w.output, w.plain)]
                WHEN regexp_replace(w.builtin, '^_', '') IN ({as_text}) OR w.category = 'C'
                THEN ARRAY[format(w.output, w.plain)]
                ELSE ARRAY[w.plain] END,
           CASE WHEN w.builtin IN ('bool', 'int2', 'int4', 'int8', 'float4', 'float8', 'numeric',
                                   'jsonb') THEN '%1$s'
                WHEN w.builtin = 'json' THEN '%1$s::json'
                ELSE w.output END
      FROM written AS w
     ORDER BY w.attnum
$$;

COMMENT ON FUNCTION pgtrickle.list_identities(oid) IS
    'How the values of the columns of a table are told apart, and shown.';

-- The relations to compare; NULL stands for one whose rows are in a lake.
CREATE OR REPLACE FUNCTION pgtrickle.find_compared(a text, b text, schemas name[])
RETURNS TABLE (of_a oid, of_b oid, is_whole boolean)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    one record;
    other record;
BEGIN
    SELECT * INTO one FROM pgtrickle.find_snapshot(a, schemas);
    IF b IS NULL THEN
        IF one.present IS NULL THEN
            RAISE EXCEPTION 'the stream table of the snapshot "%" does not exist any more', a
                  USING ERRCODE = 'ST201', HINT = 'Query the table of the snapshot instead.';
        ELSIF one.query <> one.present_query THEN
            RAISE EXCEPTION 'the stream table of the snapshot "%" has another query by now', a
                  USING ERRCODE = 'ST219', HINT = 'Compare the two tables with EXCEPT ALL.';
        END IF;
        RETURN QUERY SELECT one.relation, one.present, one.relation IS NOT NULL;
        RETURN;
    END IF;
    SELECT * INTO other FROM pgtrickle.find_snapshot(b, schemas);
    IF one.stream_table <> other.stream_table THEN
        RAISE EXCEPTION '"%" and "%" are snapshots of different stream tables', a, b
              USING ERRCODE = 'ST219', HINT = 'List them with: pgtrickle snapshot list.';
    ELSIF one.query <> other.query THEN
        RAISE EXCEPTION '"%" and "%" are snapshots of different queries', a, b
              USING ERRCODE = 'ST219', HINT = 'Compare the two tables with EXCEPT ALL.';
    END IF;
    RETURN QUERY SELECT one.relation, other.relation,
                        one.relation IS NOT NULL AND other.relation IS NOT NULL;
END
$$;

COMMENT ON FUNCTION pgtrickle.find_compared(text, text, name[]) IS
    'The tables of two snapshots that can be compared, or of one and its stream table.';

-- With the rights of the caller.  Where policies would hide rows from the caller it fails: the rows
-- would seem to have been removed, and a policy is code of the table's owner.
CREATE OR REPLACE FUNCTION pgtrickle.diff_tables(of_a oid, of_b oid, max_rows bigint)
RETURNS TABLE (change text, copies bigint, "row" json, total_added bigint, total_removed bigint)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET row_security = off
SET extra_float_digits = 1
AS $$
DECLARE
    differences text;
    keys text;
    aliases text;
    shown text;
BEGIN
    SELECT string_agg(format('%I is %s in %s, %s in %s',
                             column_name, coalesce(x.form, 'missing'), of_a::regclass,
                             coalesce(y.form, 'missing'), of_b::regclass), '; ')
      INTO differences
      FROM pgtrickle.list_identities(of_a) AS x
      FULL JOIN pgtrickle.list_identities(of_b) AS y USING (column_name)
     WHERE x.form IS DISTINCT FROM y.form;
    IF differences IS NOT NULL THEN
        RAISE EXCEPTION 'the columns differ: %', differences
              USING ERRCODE = 'ST219',
                    HINT = 'Compare the columns that both tables have with EXCEPT ALL.';
    END IF;

    SELECT string_agg(k.expression || ' AS ' || k.alias, ', ' ORDER BY k.alias),
           string_agg(k.alias, ', ' ORDER BY k.alias),
           string_agg(format(i.shown, 'd.' || k.alias) || format(' AS %I', i.column_name), ', '
                      ORDER BY i.n) FILTER (WHERE k.at = 1)
      INTO keys, aliases, shown
      FROM pgtrickle.list_identities(of_a)
           WITH ORDINALITY AS i (column_name, form, keys, shown, n),
           LATERAL (SELECT u.expression, u.at, format('k%s_%s', i.n, u.at) AS alias
                      FROM unnest(i.keys) WITH ORDINALITY AS u (expression, at)) AS k;
    RETURN QUERY EXECUTE format(
        'WITH differing AS (
             SELECT %2$s, sum(u.weight) AS weight
               FROM (SELECT %1$s, -1 AS weight FROM ONLY %4$s
                      UNION ALL
                     SELECT %1$s, 1 FROM ONLY %5$s) AS u
              GROUP BY %2$s
             HAVING sum(u.weight) <> 0)
         SELECT CASE WHEN f.weight < 0 THEN ''removed'' ELSE ''added'' END, abs(f.weight),
                f.document,
                coalesce(sum(f.weight) FILTER (WHERE f.weight > 0) OVER (), 0)::bigint,
                coalesce(-sum(f.weight) FILTER (WHERE f.weight < 0) OVER (), 0)::bigint
           FROM (SELECT d.weight, (SELECT row_to_json(r) FROM (SELECT %3$s) AS r) AS document
                   FROM differing AS d) AS f
          ORDER BY f.document::text COLLATE "C", f.weight
          LIMIT $1',
        keys, aliases, shown, of_a::regclass, of_b::regclass) USING max_rows;
END
$$;

COMMENT ON FUNCTION pgtrickle.diff_tables(oid, oid, bigint) IS
    'The rows that were added and removed from one table to another with the same columns.';

CREATE OR REPLACE FUNCTION pgtrickle.diff_snapshots(
    a text, b text DEFAULT NULL, max_rows bigint DEFAULT 100,
    schemas name[] DEFAULT current_schemas(false))
RETURNS TABLE (change text, copies bigint, "row" json, total_added bigint, total_removed bigint)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    found record;
BEGIN
    IF max_rows < 0 THEN
        RAISE EXCEPTION 'max_rows is %, which is negative', max_rows
              USING ERRCODE = 'ST501', HINT = 'Give a number from 0 on, or NULL for all rows.';
    END IF;
    SELECT * INTO found FROM pgtrickle.find_compared(a, b, schemas);
    IF NOT found.is_whole THEN
        RAISE EXCEPTION 'the rows of a snapshot are in a lake, which PostgreSQL does not read'
              USING ERRCODE = 'ST221', HINT = 'Compare them with: pgtrickle snapshot diff.';
    END IF;
    RETURN QUERY SELECT * FROM pgtrickle.diff_tables(found.of_a, found.of_b, max_rows);
END
$$;

COMMENT ON FUNCTION pgtrickle.diff_snapshots(text, text, bigint, name[]) IS
    'The rows that were added and removed from one snapshot of a stream table to another, with the'
    ' numbers of their copies; without b, up to its present rows.';
"""


def write_snapshot_differences() -> str:
    """Return the statements that define the functions."""
    return (
        _FILE.replace("{made_by_users}", _literals(MADE_BY_USERS))
        .replace("{looks_different}", _literals(LOOKS_DIFFERENT))
        .replace("{as_text}", _literals(AS_TEXT))
    )


def _literals(words: Iterable[str]) -> str:
    return ", ".join(map(quote_literal, sorted(words)))


_FIND_COMPARED = """
    SELECT of_a, of_b FROM pgtrickle.find_compared(%(before)s, %(after)s, '{}')
"""
_DIFF = """
    SELECT change, copies, "row"::pg_catalog.text, total_added, total_removed
      FROM pgtrickle.diff_tables(%(of_a)s, %(of_b)s, %(most)s)
"""


class Compared(NamedTuple):
    """The relations of two snapshots, or of one and the present rows; None: in a lake."""

    before: int | None
    after: int | None


def find_compared(
    connection: Connection[TupleRow], before: QualifiedName, after: QualifiedName | None
) -> Compared:
    """Look up what is to be compared; raises ST219 if that means nothing."""
    values = {"before": before.sql, "after": None if after is None else after.sql}
    [found] = connection.execute(_FIND_COMPARED, values).fetchall()
    return Compared(*(None if one is None else int(one) for one in found))


def diff_tables(
    connection: Connection[TupleRow],
    before: QualifiedName,
    after: QualifiedName | None,
    compared: tuple[int, int],
    max_rows: int,
) -> SnapshotDiff:
    """Return how the relations of two snapshots differ, with some of the rows."""
    values = {"of_a": compared[0], "of_b": compared[1], "most": max_rows}
    found = connection.execute(_DIFF, values).fetchall()
    added, removed = found[0][3:] if found else (0, 0)
    return SnapshotDiff(
        str(before),
        None if after is None else str(after),
        added,
        removed,
        tuple(
            RowChange(change, copies, json.loads(row, parse_float=Decimal))
            for change, copies, row, *_ in found
        ),
    )
