"""Carry views over a change of the columns that they read.

While the columns change, each view stands in for itself: it keeps its oid, its columns, its grants
and whatever depends on it, but selects NULLs and reads nothing.  Then it gets its query back.  Only
if that has other types by now, the view is dropped, and created again with its owner, its grants
and its comments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import psycopg
from psycopg import Connection

from pgtrickle.errors import DependentsExistError, PrivilegeError
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.model.text.trusted import trusted


@dataclass(frozen=True, slots=True)
class CarriedView:
    """A view that reads columns that are made anew, directly or through others."""

    name: str  # quoted
    trusted: bool  # whether its owner is
    bound: bool  # by triggers, rules or defaults, which a view that is dropped would lose
    stand_in: str
    restore: str
    create: str
    afterwards: tuple[str, ...]  # owner, grants and comments of a view that was created again


# Everything is written by the server, which quotes it; the farthest from the table comes first.
_LIST = """
    WITH RECURSIVE views (id, depth) AS (
        SELECT r.ev_class, 1
          FROM pg_catalog.pg_depend AS d
          JOIN pg_catalog.pg_attribute AS a
            ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
          JOIN pg_catalog.pg_rewrite AS r ON r.oid = d.objid AND r.rulename = '_RETURN'
         WHERE d.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass
           AND d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass
           AND d.refobjid = pg_catalog.to_regclass(%(table)s) AND a.attname = ANY (%(columns)s)
         UNION
        SELECT r.ev_class, v.depth + 1
          FROM views AS v
          JOIN pg_catalog.pg_depend AS d
            ON d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.refobjid = v.id
          JOIN pg_catalog.pg_rewrite AS r ON r.oid = d.objid AND r.rulename = '_RETURN'
         WHERE d.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass AND r.ev_class <> v.id
    ), named AS (
        SELECT c.*, v.depth, c.oid::pg_catalog.regclass::pg_catalog.text AS name,
               pg_catalog.pg_get_userbyid(c.relowner) AS owner,
               (SELECT pg_catalog.format(' WITH (%%s)', pg_catalog.string_agg(
                           pg_catalog.format('%%I = %%L', o.option_name, o.option_value), ', '))
                  FROM pg_catalog.pg_options_to_table(c.reloptions) AS o) AS options
          FROM (SELECT v.id, max(v.depth) AS depth FROM views AS v GROUP BY v.id) AS v
          JOIN pg_catalog.pg_class AS c ON c.oid = v.id AND c.relkind = 'v'
    ), written AS (
        SELECT n.*,
               pg_catalog.rtrim(pg_catalog.pg_get_viewdef(n.oid), ';') AS query,
               CASE WHEN n.reloptions IS NULL THEN '' ELSE n.options END AS how
          FROM named AS n
    )
    SELECT w.name,
           pgtrickle.trusts(pg_catalog.to_regclass(%(table)s), w.relowner),
           EXISTS (SELECT FROM pg_catalog.pg_trigger AS t WHERE t.tgrelid = w.oid)
           OR EXISTS (SELECT FROM pg_catalog.pg_rewrite AS r
                       WHERE r.ev_class = w.oid AND r.rulename <> '_RETURN')
           OR EXISTS (SELECT FROM pg_catalog.pg_attrdef AS f WHERE f.adrelid = w.oid),
           (SELECT pg_catalog.format('CREATE OR REPLACE VIEW %%s AS SELECT %%s', w.name,
                       pg_catalog.string_agg(
                           pg_catalog.format('NULL::%%s%%s AS %%I',
                               pg_catalog.format_type(a.atttypid, a.atttypmod),
                               CASE WHEN a.attcollation NOT IN (0, t.typcollation)
                                    THEN ' COLLATE ' || a.attcollation::pg_catalog.regcollation END,
                               a.attname), ', ' ORDER BY a.attnum))
              FROM pg_catalog.pg_attribute AS a
              JOIN pg_catalog.pg_type AS t ON t.oid = a.atttypid
             WHERE a.attrelid = w.oid AND a.attnum > 0),
           pg_catalog.format('CREATE OR REPLACE VIEW %%s%%s AS %%s', w.name, w.how, w.query),
           pg_catalog.format('CREATE VIEW %%s%%s AS %%s', w.name, w.how, w.query),
           ARRAY[pg_catalog.format('ALTER VIEW %%s OWNER TO %%I', w.name, w.owner)]
           || CASE WHEN w.relacl IS NULL THEN '{}'::text[]
                   ELSE ARRAY[pg_catalog.format('REVOKE ALL ON %%s FROM %%I', w.name, w.owner)] END
           || ARRAY(SELECT pg_catalog.format('GRANT %%s ON %%s TO %%s%%s', x.privilege_type, w.name,
                               CASE x.grantee WHEN 0 THEN 'PUBLIC'
                                    ELSE x.grantee::pg_catalog.regrole::pg_catalog.text END,
                               CASE WHEN x.is_grantable AND x.grantee <> w.relowner
                                    THEN ' WITH GRANT OPTION' END)
                      FROM pg_catalog.aclexplode(w.relacl) AS x)
           || ARRAY(SELECT pg_catalog.format('GRANT %%s (%%I) ON %%s TO %%s%%s', x.privilege_type,
                               a.attname, w.name,
                               CASE x.grantee WHEN 0 THEN 'PUBLIC'
                                    ELSE x.grantee::pg_catalog.regrole::pg_catalog.text END,
                               CASE WHEN x.is_grantable THEN ' WITH GRANT OPTION' END)
                      FROM pg_catalog.pg_attribute AS a, pg_catalog.aclexplode(a.attacl) AS x
                     WHERE a.attrelid = w.oid AND a.attnum > 0)
           || ARRAY(SELECT pg_catalog.format('COMMENT ON VIEW %%s IS %%L', w.name, o.description)
                      FROM pg_catalog.pg_description AS o
                     WHERE o.classoid = 'pg_catalog.pg_class'::pg_catalog.regclass
                       AND o.objoid = w.oid AND o.objsubid = 0)
           || ARRAY(SELECT pg_catalog.format('COMMENT ON COLUMN %%s.%%I IS %%L', w.name, a.attname,
                               o.description)
                      FROM pg_catalog.pg_description AS o
                      JOIN pg_catalog.pg_attribute AS a
                        ON a.attrelid = o.objoid AND a.attnum = o.objsubid
                     WHERE o.classoid = 'pg_catalog.pg_class'::pg_catalog.regclass
                       AND o.objoid = w.oid AND o.objsubid > 0)
      FROM written AS w
     ORDER BY w.depth DESC, w.name
"""


def list_carried_views(
    connection: Connection, table: QualifiedName, columns: Sequence[str]
) -> list[CarriedView]:
    """Return the views over some columns of a table, those that read other views first."""
    values = {"table": table.sql, "columns": list(columns)}
    return [
        CarriedView(name, known, bound, stand_in, restore, create, tuple(afterwards))
        for name, known, bound, stand_in, restore, create, afterwards in connection.execute(
            _LIST, values
        )
    ]


def stand_in(connection: Connection, views: Sequence[CarriedView]) -> None:
    """Let views read nothing; locks their readers out until the transaction ends.

    A reader locks a view before what that reads, so the views come before the table.
    """
    for view in views:
        if not view.trusted:
            raise PrivilegeError(
                f"the view {view.name} reads columns that are made anew, and belongs to a role that"
                " the owner of the stream table cannot act for",
                hint="Let its owner drop it first, and create it again afterwards.",
            )
        _run(connection, view, view.stand_in)


def restore(connection: Connection, views: Sequence[CarriedView]) -> None:
    """Give views their queries back, those that others read first."""
    for view in reversed(views):
        try:
            with connection.transaction():
                _run(connection, view, view.restore)
        except psycopg.errors.InvalidTableDefinition:
            _create_again(connection, view)


# Default privileges may have given others more than the view that was dropped.
_LIST_GRANTED = """
    SELECT pg_catalog.format('REVOKE ALL ON %%s FROM %%s', c.oid::pg_catalog.regclass,
               CASE x.grantee WHEN 0 THEN 'PUBLIC'
                    ELSE x.grantee::pg_catalog.regrole::pg_catalog.text END)
      FROM pg_catalog.pg_class AS c, pg_catalog.aclexplode(c.relacl) AS x
     WHERE c.oid = pg_catalog.to_regclass(%(view)s) AND x.grantee <> c.relowner
     GROUP BY c.oid, x.grantee
"""


def _create_again(connection: Connection, view: CarriedView) -> None:
    """Drop a view whose columns have other types by now, and create it with all that it had."""
    if view.bound:
        raise DependentsExistError(
            f"the view {view.name} would get columns of other types, and has triggers, rules or"
            " defaults",
            hint="Drop it first, and create it again afterwards.",
        )
    try:
        with connection.transaction():
            connection.execute(trusted(f"DROP VIEW {view.name} RESTRICT"))
    except psycopg.errors.DependentObjectsStillExist as error:
        raise DependentsExistError(
            f"other objects depend on the view {view.name}, which would get columns of other types",
            detail=error.diag.message_detail or "",
            hint="Drop them first, and create them again afterwards.",
        ) from error
    _run(connection, view, view.create)
    for (statement,) in connection.execute(_LIST_GRANTED, {"view": view.name}).fetchall():
        connection.execute(trusted(statement))
    for statement in view.afterwards:
        _run(connection, view, statement)


def _run(connection: Connection, view: CarriedView, statement: str) -> None:
    """Run a statement that the server has written."""
    try:
        connection.execute(trusted(statement))
    except psycopg.errors.InsufficientPrivilege as error:
        raise PrivilegeError(
            f"may not change the view {view.name}, which reads columns that are made anew:"
            f" {error.diag.message_primary}",
            hint="Let its owner drop it first, and create it again afterwards.",
        ) from error
    except (
        psycopg.errors.UndefinedColumn,
        psycopg.errors.UndefinedFunction,
        psycopg.errors.DatatypeMismatch,
        psycopg.errors.CannotCoerce,
    ) as error:
        raise DependentsExistError(
            f"the query of the view {view.name} does not fit the new columns:"
            f" {error.diag.message_primary}",
            hint="Drop it first, and create it again afterwards.",
        ) from error
