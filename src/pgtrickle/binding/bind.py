"""Let PostgreSQL bind a defining query: create a view of it, read the view back, drop it.

PostgreSQL has then checked every name, type and privilege, expanded stars, written out casts and
recorded the query's dependencies; nothing of its resolution is imitated here (docs/adr/0002).
The view lives inside a savepoint that is always rolled back.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

import psycopg
from psycopg import Connection, Rollback

from pgtrickle.binding.bound_objects import read_bound_objects
from pgtrickle.binding.functions.bodies import read_bodies, relations_in
from pgtrickle.binding.functions.called import Functions
from pgtrickle.binding.rights import check_rights
from pgtrickle.binding.sql_types import resolve_types
from pgtrickle.binding.untrusted_types import find_untrusted, list_users_types
from pgtrickle.errors import (
    PrivilegeError,
    QueryRejectedError,
    QuerySyntaxError,
    QueryTooLargeError,
    TrickleError,
    UndefinedObjectError,
    UnsupportedSourceError,
    VolatileFunctionError,
)
from pgtrickle.model.bound_object import BoundObject
from pgtrickle.model.sql_type import Column, SqlType
from pgtrickle.model.text.names import QualifiedName, quote_identifier
from pgtrickle.model.text.search_path import OWN_PATH
from pgtrickle.model.text.trusted import trusted
from pgtrickle.sql.bound import BoundQuery, Relation
from pgtrickle.sql.refusal import Refusal, underline
from pgtrickle.sql.text.cycle_marks import spell_cycle_marks
from pgtrickle.sql.text.limits import MAX_TABLES, check_planned
from pgtrickle.sql.text.rule_tree import measure_rules

_VIEW = "pgtrickle_state.__bind"
_CREATE_VIEW = f"CREATE VIEW {_VIEW} AS "
_MAX_VIEW_DEPTH = 100  # PostgreSQL has no cycles of views; this limits a chain of them

_SUPPORTED_KINDS = frozenset("rpvmf")
_REFUSED_KINDS = {
    "S": "a sequence",
    "t": "a TOAST table",
}

_MAX_TREE = 32 * 2**20  # characters of a rule: a view of some hundred thousand expressions

_VIEWS_AMONG = """
    SELECT c.oid FROM pg_catalog.pg_class AS c
     WHERE c.oid = ANY(%(relations)s::oid[]) AND c.relkind = 'v'
       AND c.relnamespace NOT IN ('pg_catalog'::pg_catalog.regnamespace,
                                  'information_schema'::pg_catalog.regnamespace)
"""

_RULES = """
    SELECT r.ev_class,
           CASE WHEN pg_catalog.length(r.ev_action::text) <= %(most)s THEN r.ev_action::text END
      FROM pg_catalog.pg_rewrite AS r
     WHERE r.ev_class = ANY(%(views)s::oid[]) AND r.rulename = '_RETURN'
"""

_DEFINITIONS = """
    SELECT v.oid, pg_catalog.pg_get_viewdef(v.oid)
      FROM pg_catalog.unnest(%(views)s::oid[]) AS v (oid)
"""

_RELATIONS = """
    SELECT c.oid, n.nspname, c.relname, c.relkind::text, c.relpersistence::text,
           n.nspname IN ('pg_catalog', 'information_schema', 'pg_toast'),
           pg_catalog.row_security_active(c.oid), current_user,
           c.relkind = 'p' OR EXISTS (SELECT FROM pg_catalog.pg_inherits AS i
                                       WHERE i.inhparent = c.oid)
      FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
     WHERE c.oid = ANY(%(oids)s::oid[])
"""

_COLUMNS = """
    SELECT a.attrelid, a.attname, a.atttypid, a.atttypmod,
           CASE WHEN a.attcollation = 0 THEN ''
                WHEN NOT o.collisdeterministic THEN 'nondeterministic'
                WHEN a.attcollation = 100 THEN ''
                ELSE o.collname END,
           CASE WHEN a.attcollation IN (0, 100) THEN ''
                ELSE pg_catalog.format('%%I.%%I', n.nspname, o.collname) END
      FROM pg_catalog.pg_attribute AS a
      LEFT JOIN pg_catalog.pg_collation AS o ON o.oid = a.attcollation
      LEFT JOIN pg_catalog.pg_namespace AS n ON n.oid = o.collnamespace
     WHERE a.attrelid = ANY(%(oids)s::oid[]) AND a.attnum > 0 AND NOT a.attisdropped
     ORDER BY a.attrelid, a.attnum
"""

_COLUMNS_USED = """
    SELECT DISTINCT d.refobjid, a.attname, a.attnum < 0
      FROM pg_catalog.pg_depend AS d
      JOIN pg_catalog.pg_rewrite AS r ON r.oid = d.objid
      JOIN pg_catalog.pg_attribute AS a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
     WHERE d.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass
       AND d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass
       AND r.ev_class = ANY(%(views)s::oid[]) AND d.refobjid <> r.ev_class
"""

_DEFAULT_COLLATION = """
    SELECT CASE WHEN d.datcollate IN ('C', 'POSIX', 'C.UTF-8', 'C.utf8')
                  OR (to_jsonb(d) ->> 'datlocprovider') = 'b' THEN 'C' ELSE d.datcollate END
      FROM pg_catalog.pg_database AS d WHERE d.datname = pg_catalog.current_database()
"""


@dataclass(frozen=True, slots=True)
class Binding:
    """A bound query, and PostgreSQL's objections to it."""

    query: BoundQuery
    refusals: tuple[Refusal, ...]  # functions from which no delta can be derived
    time_dependent: bool  # its answer changes without a change of a source
    problems: tuple[TrickleError, ...] = ()  # why it cannot be a stream table at all
    functions: tuple[int, ...] = ()  # the functions that are not built in
    objects: tuple[BoundObject, ...] = ()  # all objects that are not built in
    types: tuple[int, ...] = ()  # likewise, of its values
    volatile: tuple[VolatileFunctionError, ...] = ()  # only FULL can have these
    time_unfollowed: str = ""  # a form of the time whose passing no rule follows
    pinned: tuple[str, ...] = ()  # what was added so that there is one answer, in words
    # The tables that functions read, with their columns, and the function that reads each.
    watched: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    watchers: Mapping[int, str] = field(default_factory=dict)


Check = Callable[[Sequence[BoundObject]], None]


def bind_query(connection: Connection, user_sql: str) -> Binding:
    """Resolve ``user_sql`` under the session's ``search_path``; leaves no trace."""
    binding = examine_query(connection, user_sql)
    for problem in binding.problems:
        raise problem
    return binding


def bind_again(connection: Connection, sql: str, check: Check) -> Binding:
    """Resolve a text that PostgreSQL has accepted before; leaves no trace, and runs no code.

    ``check`` is called with the objects that the query uses now.
    """
    binding = examine_query(connection, sql, check)
    for problem in binding.problems:
        raise problem
    return binding


def examine_query(connection: Connection, user_sql: str, check: Check | None = None) -> Binding:
    """Do the same, but collect the reasons why a query cannot define a stream table.

    Raises only PostgreSQL's own errors: without ``check``, also those of planning the query,
    which runs functions of constants.
    """
    with _scratch_view(connection, user_sql) as search_path:
        view = int(str(_scalar(connection, f"SELECT '{_VIEW}'::pg_catalog.regclass::oid")))
        rules = _read_rules(connection, [view])
        trees = list(rules.values())
        check_planned(measure_rules(rules, view))
        functions = Functions.read(connection, trees)
        bodies = read_bodies(connection, functions.rows, partial(_read_rules, connection))
        own = tuple(sorted({*functions.own, *bodies.functions}))
        objects = read_bound_objects(connection, view, rules, own)
        if check is not None:
            check(objects)
        check_rights(connection, rules, relations_in(trees), functions.called)
        problems: list[TrickleError] = []
        definitions = _read_definitions(connection, rules | bodies.rules)
        read = [*trees, *bodies.trees]
        relations = _read_relations(connection, definitions, read, problems)
        problems += _refused_clauses(trees, user_sql)
        types = list_users_types(connection, view, {oid: rules[oid][0] for oid in rules})
        problems += find_untrusted(connection, types)
        used = _read_columns_used(connection, rules, relations, user_sql, problems)
        if check is None and not problems:
            _plan(connection, user_sql, search_path)
        return Binding(
            BoundQuery(
                definitions[view],
                relations.pop(view).columns,
                {relation.name: relation for relation in relations.values()},
                used,
                search_path,
                functions.set_returning(),
                functions.aggregates(),
            ),
            (*functions.refusals(trees), *bodies.refusals),
            functions.time_dependent(trees) or bool(bodies.refusals),
            tuple(problems),
            own,
            objects,
            types,
            tuple(functions.volatile(user_sql)),
            functions.time_unfollowed(trees),
            watched={relid: tuple(sorted(names)) for relid, names in bodies.reads.items()},
            watchers=bodies.readers,
        )


def print_query(connection: Connection, sql: str) -> str:
    """Return a query as PostgreSQL prints it; leaves no trace."""
    with _scratch_view(connection, sql):
        view = int(str(_scalar(connection, f"SELECT '{_VIEW}'::pg_catalog.regclass::oid")))
        return _read_definitions(connection, [view])[view]


def place_of_error(error: TrickleError, sql: str) -> int | None:
    """Return the position in a query at which PostgreSQL found an error."""
    cause = error.__cause__
    return _start(cause.diag.statement_position, sql) if isinstance(cause, psycopg.Error) else None


def default_collation(connection: Connection) -> str:
    """Return "C" if the database orders text by bytes, otherwise its collation's name."""
    return str(_scalar(connection, _DEFAULT_COLLATION))


@contextmanager
def _scratch_view(connection: Connection, user_sql: str) -> Iterator[str]:
    """Create a view of the query for the duration of a block; yield its search path."""
    statement = _CREATE_VIEW + user_sql.strip().rstrip(";")
    with connection.transaction() as savepoint:
        search_path = str(_scalar(connection, "SELECT pg_catalog.current_setting('search_path')"))
        try:
            # With the extended protocol, which "binary" selects: only then does PostgreSQL refuse
            # more than one statement.
            connection.execute(trusted(statement), binary=True)
        except psycopg.Error as error:
            raise _translate(error, user_sql, connection.info.user) from error
        connection.execute("SET LOCAL search_path = pg_catalog, pg_temp")
        yield search_path
        raise Rollback(savepoint)


def _plan(connection: Connection, user_sql: str, search_path: str) -> None:
    """Let PostgreSQL make the checks of planning a query and starting to run it."""
    set_path = "SELECT pg_catalog.set_config('search_path', %s, true)"
    try:
        connection.execute(set_path, [search_path])  # functions may depend on it
        connection.execute(trusted(f"SELECT * FROM {_VIEW} LIMIT 0"))
        connection.execute(set_path, [OWN_PATH])
    except psycopg.Error as error:
        raise _translate(error, user_sql, connection.info.user) from error


def _refused_clauses(trees: Iterable[str], user_sql: str) -> Iterator[TrickleError]:
    """Yield the clauses that can never define a stream table, in any mode."""
    text = "".join(trees)
    if "{TABLESAMPLECLAUSE" in text:
        yield QueryRejectedError(
            "TABLESAMPLE gives other rows each time",
            detail=underline(user_sql, "tablesample"),
            hint="A stream table must give the same rows for the same data.",
        )
    if "{ROWMARKCLAUSE" in text:
        yield QueryRejectedError(
            "a locking clause has no meaning in a stream table",
            detail=underline(user_sql, "for update", "for share", "for no", "for key"),
            hint="Remove FOR UPDATE or FOR SHARE from the query.",
        )


def concerns_query(error: psycopg.Error) -> bool:
    """Tell whether an error is a property of the query, and not of the present circumstances.

    A lost connection, a standby, a held lock, exhausted resources and a query that was cancelled
    say nothing about it.
    """
    code = error.sqlstate or ""
    return code[:2] not in {"", "08", "25", "40", "53", "55", "57", "58"}


def _translate(error: psycopg.Error, user_sql: str, role: str) -> TrickleError:
    code = error.sqlstate or ""
    diag = error.diag
    message = diag.message_primary or str(error)
    detail = "\n".join(
        filter(None, [_position(diag.statement_position, user_sql), diag.message_detail])
    )
    hint = diag.message_hint or ""
    if code == "42601":
        return QuerySyntaxError(message, detail=detail, hint=hint or "Correct the query's syntax.")
    if code in {"42P01", "42703", "42883", "42704", "3F000", "42P02"}:
        return UndefinedObjectError(
            message, detail=detail, hint=hint or "Check the name, its schema and the search_path."
        )
    if code == "42501":
        start = _start(diag.statement_position, user_sql)
        return PrivilegeError(message, detail=detail, hint=hint or _grant(user_sql, start, role))
    if code.startswith("54"):  # program limit exceeded: too complex, too many columns
        return QueryTooLargeError(message, detail=detail, hint=hint or "Simplify the query.")
    if code == "42701":
        hint = hint or "Give every column of the result a name of its own with AS."
    if not concerns_query(error):
        raise error
    return QueryRejectedError(message, detail=detail, hint=hint or "Correct the query.")


def _grant(user_sql: str, start: int | None, role: str) -> str:
    """Return the GRANT that helps: a name that cannot be resolved is in a schema without USAGE."""
    named = None if start is None else re.match(r'("(?:[^"]|"")+"|\w+)\s*\.', user_sql[start:])
    who = quote_identifier(role)
    if named is None:
        return f"Let the owner run: GRANT SELECT ON ... TO {who};"
    return f"Let the owner of the schema run: GRANT USAGE ON SCHEMA {named[1]} TO {who};"


def _start(position: str | None, user_sql: str) -> int | None:
    """Return the position of an error in the user's text."""
    if position is None:
        return None
    leading = len(user_sql) - len(user_sql.lstrip())
    start = int(position) - 1 - len(_CREATE_VIEW) + leading
    return start if 0 <= start < len(user_sql) else None


def _position(position: str | None, user_sql: str) -> str:
    start = _start(position, user_sql)
    if start is None:
        return ""
    word = re.match(r"[\w.\"]+|.", user_sql[start:], re.DOTALL)
    line_start = user_sql.rfind("\n", 0, start) + 1
    line = user_sql[line_start:].split("\n", 1)[0]
    prefix = f"line {user_sql.count(chr(10), 0, start) + 1}: "
    mark = "^" * max(1, len(word.group(0)) if word else 1)
    return f"{prefix}{line}\n{' ' * (len(prefix) + start - line_start)}{mark}"


def _read_rules(connection: Connection, relations: Collection[int]) -> dict[int, str]:
    """Return each view's rule, for those among some relations and every view under them."""
    found: dict[int, str] = {}
    named = set(relations)
    for _ in range(_MAX_VIEW_DEPTH):
        rows = connection.execute(_VIEWS_AMONG, {"relations": list(named)}).fetchall()
        pending = [oid for (oid,) in rows]
        if not pending:
            return found
        if len(found) + len(pending) > MAX_TABLES:
            raise _too_large("consists of", len(found) + len(pending), "views", MAX_TABLES)
        rows = connection.execute(_RULES, {"views": pending, "most": _MAX_TREE}).fetchall()
        if any(tree is None for _, tree in rows):
            raise _too_large(
                "has a view of more than", _MAX_TREE, "characters as a tree", _MAX_TREE
            )
        found |= dict(rows)
        named = relations_in(tree for _, tree in rows) - found.keys()
    raise QueryRejectedError(
        f"the query nests views more than {_MAX_VIEW_DEPTH} deep", hint="Flatten the views."
    )


def _too_large(what: str, number: int, unit: str, most: int) -> QueryTooLargeError:
    return QueryTooLargeError(
        f"the query {what} {number} {unit}", hint=f"At most {most} are allowed; simplify the views."
    )


def _read_definitions(connection: Connection, views: Iterable[int]) -> dict[int, str]:
    """Return the text of each view, as PostgreSQL prints it under the session's path."""
    rows = connection.execute(_DEFINITIONS, {"views": list(views)})
    return {oid: spell_cycle_marks(text.strip().rstrip(";")) for oid, text in rows}


def _read_relations(
    connection: Connection,
    definitions: dict[int, str],
    trees: Iterable[str],
    problems: list[TrickleError],
) -> dict[int, Relation]:
    oids = relations_in(trees) | definitions.keys()
    columns: dict[int, list[Column]] = {oid: [] for oid in oids}
    collation = default_collation(connection)
    rows = connection.execute(_COLUMNS, {"oids": list(oids)}).fetchall()
    types = resolve_types(connection, [(row[2], row[3]) for row in rows])
    for (oid, name, _, _, own, collate), type_ in zip(rows, types, strict=True):
        columns[oid].append(Column(name, _collated(type_, own or collation, collate)))
    relations = {}
    for row in connection.execute(_RELATIONS, {"oids": list(oids)}).fetchall():
        oid, schema, relname, kind, persistence, system, hides, role, parent = row
        name = QualifiedName(schema, relname)
        problem = _problem_of_source(name, kind, persistence, system=system)
        if hides and problem is None:
            problem = UnsupportedSourceError(
                f'"{name}" has row security, which hides rows from the role "{role}"',
                hint="Create the stream table as the table's owner or as a role with BYPASSRLS.",
            )
        if oid not in definitions and problem is not None:
            problems.append(problem)
        relations[oid] = Relation(
            oid, name, tuple(columns[oid]), definitions.get(oid), kind, has_children=parent
        )
    return relations


def _collated(type_: SqlType, collation: str, collate: str) -> SqlType:
    if type_.category != "S":
        return type_
    plain = "C" if collation in {"C", "POSIX", "C.UTF-8", "C.utf8", "ucs_basic"} else collation
    return replace(type_, collation=plain, collate=collate)


def _problem_of_source(
    name: QualifiedName,
    kind: str,
    persistence: str,
    *,
    system: bool,
) -> TrickleError | None:
    if system:
        return UnsupportedSourceError(
            f'"{name}" is a system catalog', hint="Its changes cannot be captured by triggers."
        )
    if persistence == "t":
        return UnsupportedSourceError(
            f'"{name}" is a temporary table',
            hint="It ends with your session; use an ordinary table.",
        )
    if kind not in _SUPPORTED_KINDS:
        return UnsupportedSourceError(
            f'"{name}" is {_REFUSED_KINDS.get(kind, "not a table")}',
            hint="Only tables, views and stream tables can be sources.",
        )
    return None


def _read_columns_used(
    connection: Connection,
    rules: dict[int, str],
    relations: dict[int, Relation],
    user_sql: str,
    problems: list[TrickleError],
) -> dict[int, tuple[str, ...]]:
    used: dict[int, list[str]] = {
        oid: [] for oid, relation in relations.items() if relation.definition is None
    }
    for oid, column, of_system in connection.execute(_COLUMNS_USED, {"views": list(rules)}):
        if oid in used and of_system:
            problems.append(_system_column(column, relations[oid], user_sql))
        elif oid in used:
            used[oid].append(column)
    return {oid: tuple(sorted(names)) for oid, names in used.items()}


def _system_column(column: str, relation: Relation, user_sql: str) -> TrickleError:
    return QueryRejectedError(
        f'"{column}" of {relation.name} is a system column, of which no change is captured',
        detail=underline(user_sql, column),
        hint="Select columns of the table instead.",
    )


def _scalar(connection: Connection, query: str) -> object:
    row = connection.execute(query).fetchone()
    if row is None:
        raise AssertionError("a scalar query has one row")
    return row[0]
