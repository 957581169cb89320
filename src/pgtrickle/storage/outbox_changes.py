"""The changes of an outbox, as the statement that appends them computes them.

A row is a JSON object from which each value can be read back: ``(row ->> column)::type``.  Where
the query has a unique key, the row that goes and the row that comes for one value of the key are
one change; a key that is not unique after all loses nothing, because every row is in some change.
"""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import Connection

from pgtrickle.model.sql_type import Column, SqlType
from pgtrickle.model.text.comparable import comparable
from pgtrickle.model.text.names import quote_identifier
from pgtrickle.model.text.output_text import output_text
from pgtrickle.model.text.trusted import trusted

# Types whose JSON form is one to one with the value, whatever the session's settings are.
_AS_JSON = frozenset(
    {"bool", "int2", "int4", "int8", "numeric", "text", "varchar", "bpchar", "name", "date",
     "timestamp", "timestamptz"}
)  # fmt: skip
_FLOATS = frozenset({"float4", "float8"})
# Types whose text is always the same, too.
_STEADY_TEXT = frozenset(
    {"uuid", "json", "jsonb", "inet", "cidr", "macaddr", "oid", "bit", "varbit"}
)
# Under which the texts of values are the same in every session.
TEXT_SETTINGS = {
    "datestyle": "'ISO, MDY'",
    "intervalstyle": "'postgres'",
    "bytea_output": "'hex'",
    "extra_float_digits": "'1'",
}
_PENDING_BYTES = 8_000_000  # no statement of a writer makes a value that is too large
_INLINE_BYTES = (
    16_000_000  # in one value, which can have 256 MB, and which a consumer reads at once
)


def json_value(expression: str, type_: SqlType) -> str:
    """Return an expression of which the JSON object of a row takes a value.

    JSON has no negative zero.

    >>> json_value('r."a"', SqlType("integer", "int4", "N"))
    'r."a"'
    >>> json_value('r."a"', SqlType("integer[]", "_int4", "A"))
    '(r."a")::text'
    """
    if type_.base in _AS_JSON:
        return expression
    if type_.base in _FLOATS:
        text = f"({expression})::text"
        return (
            f"CASE WHEN {text} = '-0' THEN pg_catalog.to_jsonb({text})"
            f" ELSE pg_catalog.to_jsonb({expression}) END"
        )
    return output_text(expression, type_)


def depends_on_settings(columns: Sequence[Column]) -> bool:
    """Tell whether the texts of some values depend on settings of the session.

    >>> depends_on_settings([Column("a", SqlType("interval", "interval", "T"))])
    True
    """
    steady = _AS_JSON | _STEADY_TEXT
    return any(one.type.base not in steady and one.type.category != "E" for one in columns)


def write_changes(
    columns: Sequence[Column], key: Sequence[str] | None, relation: str, weight: str
) -> str:
    """Write the query for the changes that weighted rows come to: rank, before and after."""
    document = f"(SELECT pg_catalog.to_jsonb(document) FROM ({_list_values(columns)}) AS document)"
    copies = f"pg_catalog.generate_series(1, pg_catalog.abs({weight}))"
    if key is None:
        return (
            f"SELECT CASE WHEN {weight} < 0 THEN {document} END AS before,\n"
            f"       CASE WHEN {weight} > 0 THEN {document} END AS after\n"
            f"  FROM {relation} AS r, {copies}"
        )
    return _pair(document, f"{relation} AS r, {copies}", weight, _group(columns, key))


def write_texts(
    columns: Sequence[Column], key: Sequence[str] | None, relation: str, weight: str
) -> str:
    """Write the query for the same changes, as JSON texts, which are quicker to put together.

    Of a key, hardly ever more than one row goes and one comes: then nothing is put into arrays.
    The relation is read twice, and must be a table.
    """
    values = _list_values(columns)
    document = f"(SELECT pg_catalog.row_to_json(document)::text FROM ({values}) AS document)"
    # Not generate_series alone: PostgreSQL would expect a thousand copies of each row.
    copied = (
        f"(SELECT r.* FROM {relation} AS r UNION ALL SELECT r.* FROM {relation} AS r,"
        f" pg_catalog.generate_series(2, pg_catalog.abs({weight}))"
        f" WHERE pg_catalog.abs({weight}) > 1) AS r"
    )
    if key is None:
        return (
            f"SELECT CASE WHEN {weight} < 0 THEN {document} END AS before,\n"
            f"       CASE WHEN {weight} > 0 THEN {document} END AS after\n"
            f"  FROM {copied}"
        )
    grouped = _group(columns, key)
    least = f'pg_catalog.min({document} COLLATE "C")'
    return (
        f"WITH one AS MATERIALIZED (\n"
        f"  SELECT {least} FILTER (WHERE {weight} < 0) AS before,\n"
        f"         {least} FILTER (WHERE {weight} > 0) AS after,\n"
        f"         greatest(-pg_catalog.sum({weight}) FILTER (WHERE {weight} < 0),\n"
        f"                  pg_catalog.sum({weight}) FILTER (WHERE {weight} > 0)) AS copies\n"
        f"    FROM {relation} AS r\n"
        f"   GROUP BY {grouped}\n"
        f"), unique_key AS MATERIALIZED (\n"
        f"  SELECT coalesce(pg_catalog.max(copies), 1) = 1 AS so FROM one\n"
        f")\n"
        f"SELECT before, after FROM one WHERE copies IS NOT NULL AND (SELECT so FROM unique_key)\n"
        f" UNION ALL (\n"
        f"{_pair(document, copied, weight, grouped)}\n"
        f" WHERE NOT (SELECT so FROM unique_key))"
    )


def _list_values(columns: Sequence[Column]) -> str:
    listed = ", ".join(
        f"{json_value(f'r.{quote_identifier(one.name)}', one.type)} AS {quote_identifier(one.name)}"
        for one in columns
    )
    return f"SELECT {listed}"


def _group(columns: Sequence[Column], key: Sequence[str]) -> str:
    types = {one.name: one.type for one in columns}
    grouped = ", ".join(comparable(f"r.{quote_identifier(one)}", types[one]) for one in key)
    return grouped or "()"


def _pair(document: str, rows: str, weight: str, grouped: str) -> str:
    return (
        f"SELECT pair.before, pair.after FROM (\n"
        f"  SELECT pg_catalog.array_agg({document}) FILTER (WHERE {weight} < 0) AS gone,\n"
        f"         pg_catalog.array_agg({document}) FILTER (WHERE {weight} > 0) AS come\n"
        f"    FROM {rows}\n"
        f"   GROUP BY {grouped}\n"
        f") AS keys,"
        f" ROWS FROM (pg_catalog.unnest(keys.gone), pg_catalog.unnest(keys.come))"
        f" AS pair (before, after)"
    )


def write_pending(stream_table_id: int, changes: str) -> str:
    """Write the statement by which a writer appends changes, which get their number later."""
    return _PENDING.replace("{id}", f"{stream_table_id:d}").replace("{changes}", changes)


_OBJECT = """CASE WHEN n.before IS NULL
                        THEN jsonb_build_object('op', 'insert', 'after', n.after)
                        WHEN n.after IS NULL
                        THEN jsonb_build_object('op', 'delete', 'before', n.before)
                        ELSE jsonb_build_object('op', 'update', 'before', n.before,
                                                'after', n.after) END"""
_PENDING = f"""
    WITH numbered AS (
        SELECT row_number() OVER w AS row_number, c.before, c.after,
               sum(coalesce(pg_column_size(c.before), 0) + coalesce(pg_column_size(c.after), 0))
                   OVER w / {_PENDING_BYTES} AS part
          FROM (
        {{changes}}
               ) AS c
        WINDOW w AS (ORDER BY c.after IS NOT NULL, c.before IS NULL
                     ROWS UNBOUNDED PRECEDING)
    )
    INSERT INTO pgtrickle.pgt_outbox_pending
        (pgt_id, schema_version, inserted, updated, deleted, changes)
    SELECT o.pgt_id, o.schema_version, count(*) FILTER (WHERE n.before IS NULL),
           count(*) FILTER (WHERE n.before IS NOT NULL AND n.after IS NOT NULL),
           count(*) FILTER (WHERE n.after IS NULL),
           jsonb_agg({_OBJECT} ORDER BY n.row_number)
      FROM numbered AS n, pgtrickle.pgt_outbox_config AS o
     WHERE o.pgt_id = {{id}} AND o.started
     GROUP BY o.pgt_id, o.schema_version, trunc(n.part) ORDER BY trunc(n.part)
"""


def append_entry(connection: Connection, changes: str, values: dict[str, object]) -> None:
    """Append an entry with the changes of a query, as texts, under the next number.

    ``values`` are the other columns of the entry, and ``most``, the changes that it may hold.
    """
    statement = trusted(_APPEND.replace("{changes}", changes.replace("%", "%%")))
    connection.execute(statement, {**values, "bytes": _INLINE_BYTES})


_APPEND = """
    WITH found AS MATERIALIZED (
        {changes}
    ), size AS MATERIALIZED (
        SELECT count(*) FILTER (WHERE before IS NULL) AS inserted,
               count(*) FILTER (WHERE before IS NOT NULL AND after IS NOT NULL) AS updated,
               count(*) FILTER (WHERE after IS NULL) AS deleted,
               count(*) <= %(most)s
               AND coalesce(sum(coalesce(octet_length(before), 0)
                                + coalesce(octet_length(after), 0)), 0) <= %(bytes)s AS inline
          FROM found
    ), taken AS (
        -- Locked until the commit: entries become visible in the order of their numbers.
        UPDATE pgtrickle.pgt_outbox_config SET last_id = last_id + 1 WHERE pgt_id = %(pgt_id)s
        RETURNING last_id
    ), claimed AS (
        INSERT INTO pgtrickle.pgt_outbox_rows (pgt_id, outbox_id, row_number, before, after)
        SELECT %(pgt_id)s, t.last_id,
               row_number() OVER (ORDER BY f.after IS NOT NULL, f.before IS NULL),
               f.before::jsonb, f.after::jsonb
          FROM found AS f, taken AS t WHERE NOT (SELECT s.inline FROM size AS s)
    )
    INSERT INTO pgtrickle.pgt_outbox_entries AS e
        (pgt_id, outbox_id, refresh_id, action, reset, frontier, data_timestamp, schema_version,
         inserted, updated, deleted, changes)
    SELECT %(pgt_id)s, t.last_id, %(refresh_id)s, %(action)s, %(reset)s, %(frontier)s,
           %(data_timestamp)s, %(schema_version)s, s.inserted, s.updated, s.deleted,
           CASE WHEN s.inline THEN
               (SELECT ('[' || concat_ws(', ', c.deletes, c.updates, c.inserts) || ']')::jsonb
                  FROM (SELECT string_agg('{"op": "delete", "before": ' || f.before || '}', ', ')
                                   FILTER (WHERE f.after IS NULL) AS deletes,
                               string_agg('{"op": "update", "before": ' || f.before
                                          || ', "after": ' || f.after || '}', ', ')
                                   FILTER (WHERE f.before IS NOT NULL AND f.after IS NOT NULL)
                                   AS updates,
                               string_agg('{"op": "insert", "after": ' || f.after || '}', ', ')
                                   FILTER (WHERE f.before IS NULL) AS inserts
                          FROM found AS f) AS c) END
      FROM size AS s, taken AS t
"""
