"""Whether all is as it was when the functions of an IMMEDIATE stream table were made.

Every statement of a writer asks, so one query answers: it compares a text that was recorded with
what the text would be now.  Every change of a column gives its row in pg_attribute another xmin.
The text also changes for harmless reasons; then ``pgtrickle.may_follow()`` compares everything.  A
tree of tables, row security and types that are not built in have no such text.
"""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import Connection

from pgtrickle.immediate.blueprint import Blueprint
from pgtrickle.model.text.names import quote_literal
from pgtrickle.model.text.trusted import trusted


def record_stamp(connection: Connection, blueprint: Blueprint) -> None:
    """Record the text, after the sources have been recorded."""
    connection.execute(
        trusted(
            "UPDATE pgtrickle.pgt_immediate AS i\n"
            "   SET stamp = CASE WHEN NOT EXISTS (\n"
            "           SELECT FROM pgtrickle.pgt_immediate_sources AS s\n"
            """ WHERE s.pgt_id = i.pgt_id AND NOT pg_catalog.starts_with(s.shape, '{"",'))\n"""
            f"       THEN {_write_stamp(blueprint)} END\n"
            f" WHERE i.pgt_id = {blueprint.id:d}"
        )
    )


def _write_stamp(blueprint: Blueprint) -> str:
    """Write the text as an expression, which is NULL if there is none."""
    relations = {**blueprint.used, blueprint.relid: [one.name for one in blueprint.columns]}
    return "\n|| ".join(_write_part(relid, names) for relid, names in sorted(relations.items()))


def _write_part(relid: int, names: Sequence[str]) -> str:
    listed = ", ".join(quote_literal(name) for name in names)
    return (
        "(SELECT pg_catalog.concat_ws(' ', c.oid::pg_catalog.regclass, c.relowner, ARRAY(\n"
        f"        SELECT a.xmin FROM pg_catalog.pg_attribute AS a WHERE a.attrelid = {relid:d}\n"
        f"           AND a.attname = ANY (ARRAY[{listed}]::pg_catalog.name[]) AND a.attnum > 0\n"
        "         ORDER BY a.attname), '')\n"
        f"   FROM pg_catalog.pg_class AS c WHERE c.oid = {relid:d}\n"
        "    AND NOT c.relhassubclass AND NOT c.relrowsecurity\n"
        "    AND pg_catalog.has_table_privilege(c.oid, 'SELECT')\n"
        "    AND pg_catalog.has_schema_privilege(c.relnamespace, 'USAGE'))"
    )


def is_undisturbed(blueprint: Blueprint) -> str:
    """Write the condition.

    Most queries name nothing but tables and what comes with PostgreSQL, which nobody replaces.
    """
    return f"""(
        SELECT i.ready AND i.stamp = {_write_stamp(blueprint)}
               AND s.function_hashes = '{{}}' AND NOT s.bound ? 'again'
               AND NOT s.bound @? '$.objects[*] ? (@.class != "relation")'
               AND pg_catalog.current_setting('transaction_isolation') = 'read committed'
               AND pg_catalog.lower(
                       COALESCE(pg_catalog.current_setting('pg_trickle.enabled', true), 'on'))
                   NOT IN ('off', 'false', 'no', '0')
          FROM pgtrickle.pgt_immediate AS i, pgtrickle.pgt_stream_tables AS s
         WHERE i.pgt_id = {blueprint.id:d} AND s.pgt_id = {blueprint.id:d})"""
