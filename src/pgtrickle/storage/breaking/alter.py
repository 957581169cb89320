"""Change the columns of a stream table's table as its new query wants, and carry over what it can.

The table keeps its oid and its grants.  Columns that are made anew keep their grants, comments and
indexes, and the views over them their queries.  What depends on a column that goes for good, or
cannot be carried over, is listed, and nothing is done.
"""

from __future__ import annotations

from collections.abc import Sequence

import psycopg
from psycopg import Connection

from pgtrickle.errors import DependentsExistError
from pgtrickle.model.text.names import QualifiedName, quote_identifier
from pgtrickle.model.text.trusted import trusted
from pgtrickle.storage.apply import drop_row_index
from pgtrickle.storage.breaking.plan import BreakingChange
from pgtrickle.storage.breaking.views import list_carried_views, restore, stand_in
from pgtrickle.storage.definitions import column_definitions

# Views go by their rules.  Indexes (deptype a) go with their columns, and are created again.
_LIST_DEPENDENTS = """
    SELECT a.attname, i.type || ' ' || i.identity,
           r.oid IS NOT NULL AND c.relkind = 'v',
           d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.deptype = 'a'
      FROM pg_catalog.pg_depend AS d
      JOIN pg_catalog.pg_attribute AS a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
      LEFT JOIN pg_catalog.pg_rewrite AS r
        ON d.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass AND r.oid = d.objid
           AND r.rulename = '_RETURN'
      LEFT JOIN pg_catalog.pg_class AS c ON c.oid = r.ev_class,
           LATERAL pg_catalog.pg_identify_object(
               CASE WHEN r.oid IS NULL THEN d.classid
                    ELSE 'pg_catalog.pg_class'::pg_catalog.regclass::oid END,
               COALESCE(r.ev_class, d.objid), 0) AS i
     WHERE d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass
       AND d.refobjid = pg_catalog.to_regclass(%(table)s) AND a.attname = ANY (%(columns)s)
     GROUP BY 1, 2, 3, 4
     ORDER BY 1, 2
"""
_LIST_INDEXES = """
    SELECT pg_catalog.pg_get_indexdef(i.indexrelid)
      FROM pg_catalog.pg_index AS i
     WHERE i.indrelid = pg_catalog.to_regclass(%(table)s)
       AND EXISTS (SELECT FROM pg_catalog.pg_depend AS d
                     JOIN pg_catalog.pg_attribute AS a
                       ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
                    WHERE d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass
                      AND d.objid = i.indexrelid AND d.refobjid = i.indrelid
                      AND a.attname = ANY (%(made_anew)s))
       AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend AS d
                         JOIN pg_catalog.pg_attribute AS a
                           ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
                        WHERE d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass
                          AND d.objid = i.indexrelid AND d.refobjid = i.indrelid
                          AND a.attname = ANY (%(dropped)s))
     ORDER BY 1
"""
_LIST_GRANTS_AND_COMMENTS = """
    SELECT pg_catalog.format('GRANT %%s (%%I) ON TABLE %%s TO %%s%%s', x.privilege_type, a.attname,
               a.attrelid::pg_catalog.regclass,
               CASE x.grantee WHEN 0 THEN 'PUBLIC'
                    ELSE x.grantee::pg_catalog.regrole::pg_catalog.text END,
               CASE WHEN x.is_grantable THEN ' WITH GRANT OPTION' END)
      FROM pg_catalog.pg_attribute AS a, pg_catalog.aclexplode(a.attacl) AS x
     WHERE a.attrelid = pg_catalog.to_regclass(%(table)s) AND a.attname = ANY (%(made_anew)s)
    UNION ALL
    SELECT pg_catalog.format('COMMENT ON COLUMN %%s.%%I IS %%L', a.attrelid::pg_catalog.regclass,
               a.attname, o.description)
      FROM pg_catalog.pg_attribute AS a
      JOIN pg_catalog.pg_description AS o
        ON o.classoid = 'pg_catalog.pg_class'::pg_catalog.regclass
           AND o.objoid = a.attrelid AND o.objsubid = a.attnum
     WHERE a.attrelid = pg_catalog.to_regclass(%(table)s) AND a.attname = ANY (%(made_anew)s)
"""


def break_columns(connection: Connection, name: QualifiedName, change: BreakingChange) -> None:
    """Drop and add columns; locks readers of the table and of its views out until the commit."""
    values = {
        "table": name.sql,
        "made_anew": list(change.made_anew),
        "dropped": list(change.dropped),
    }
    _check_dropped(connection, name, change.dropped)
    views = list_carried_views(connection, name, change.made_anew)
    stand_in(connection, views)
    drop_row_index(connection, name)
    _check_made_anew(connection, name, change.made_anew)
    indexes = connection.execute(_LIST_INDEXES, values).fetchall()
    kept = connection.execute(_LIST_GRANTS_AND_COMMENTS, values).fetchall()
    drops = [f"DROP COLUMN {quote_identifier(one)} RESTRICT" for one in change.going]
    adds = [f"ADD COLUMN {column_definitions([column])}" for column in change.added]
    try:
        with connection.transaction():
            connection.execute(trusted(f"ALTER TABLE {name.sql} {', '.join([*drops, *adds])}"))
            for (statement,) in [*kept, *indexes]:
                connection.execute(trusted(statement))  # the server has written it
    except psycopg.errors.DependentObjectsStillExist as error:
        raise DependentsExistError(
            f'other objects use columns of "{name}" that change',
            detail=error.diag.message_detail or "",
            hint="Drop them first, and create them again afterwards.",
        ) from error
    except (psycopg.errors.UndefinedObject, psycopg.errors.UndefinedFunction) as error:
        raise DependentsExistError(
            f'an index of "{name}" does not fit the new columns: {error.diag.message_primary}',
            hint="Drop it first, and create it again afterwards.",
        ) from error
    restore(connection, views)


def _check_dropped(connection: Connection, name: QualifiedName, columns: Sequence[str]) -> None:
    """Raise ST207, and list what depends on columns that go for good."""
    found = _list_dependents(connection, name, columns)
    needed = [f"column {column}: {what}" for column, what, _, goes_along in found if not goes_along]
    if needed:
        raise DependentsExistError(
            f'other objects use columns of "{name}" that the new query does not have',
            detail="; ".join(needed),
            hint="Drop them first, or keep the columns in the query.",
        )


def _check_made_anew(connection: Connection, name: QualifiedName, columns: Sequence[str]) -> None:
    """Raise ST207 for what reads columns that are made anew, and is neither view nor index."""
    found = _list_dependents(connection, name, columns)
    others = [
        f"column {column}: {what}"
        for column, what, is_view, goes_along in found
        if not is_view and not goes_along
    ]
    if others:
        raise DependentsExistError(
            f'other objects than views use columns of "{name}" that change their type or place',
            detail="; ".join(others),
            hint="Drop them first, and create them again afterwards.",
        )


def _list_dependents(
    connection: Connection, name: QualifiedName, columns: Sequence[str]
) -> list[tuple[str, str, bool, bool]]:
    values = {"table": name.sql, "columns": list(columns)}
    return connection.execute(_LIST_DEPENDENTS, values).fetchall()
