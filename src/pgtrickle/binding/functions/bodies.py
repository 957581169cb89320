"""What the STABLE functions of a query read, as far as PostgreSQL can tell.

A function in SQL is a query with parameters, and PostgreSQL binds it like one: the tables in it are
known, and a refresh computes everything anew when one of them has changed (docs/adr/0054).  Nobody
looks into functions in other languages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.binding.functions.called import Function, Functions
from pgtrickle.capture.sources import get_source
from pgtrickle.errors import TrickleError
from pgtrickle.model.text.search_path import OWN_PATH
from pgtrickle.model.text.trusted import trusted
from pgtrickle.sql.refusal import Refusal

_PROBE = "pgtrickle_state.__body"
_MOST = 100  # functions, counted with those that they call

_RELATION_IN_TREE = re.compile(r":rtekind 0 :relid (\d+)")
_WHOLE_ROW_IN_TREE = re.compile(r"\{VAR :varno \d+ :varattno 0 ")
_SYSTEM_COLUMN_IN_TREE = re.compile(r"\{VAR :varno \d+ :varattno -")
_WRITES_IN_TREE = re.compile(r"\{QUERY :commandType [^1]")
_SAMPLE_IN_TREE = re.compile(r"\{TABLESAMPLECLAUSE ")
_OPEN_LIMIT_IN_TREE = re.compile(r":sortClause <> :limitOffset (?:\{|<> :limitCount \{)")

_DESCRIBE = """
    SELECT l.lanname, p.prosqlbody::text, p.prosrc,
           (SELECT pg_catalog.substr(one, 13) FROM pg_catalog.unnest(p.proconfig) AS one
             WHERE one LIKE 'search_path=%%')
      FROM pg_catalog.pg_proc AS p JOIN pg_catalog.pg_language AS l ON l.oid = p.prolang
     WHERE p.oid = %(oid)s
"""
_SIGNATURE = """
    SELECT pg_catalog.pg_get_function_arguments(%(oid)s), pg_catalog.pg_get_function_result(%(oid)s)
"""
_FIND_PROBE = """
    SELECT p.oid, p.prosqlbody::text FROM pg_catalog.pg_proc AS p
     WHERE p.pronamespace = 'pgtrickle_state'::pg_catalog.regnamespace AND p.proname = '__body'
"""
_COLUMNS = """
    SELECT d.refobjid, c.relkind::text,
           CASE WHEN NOT %(all)s THEN COALESCE(
               pg_catalog.array_agg(DISTINCT a.attname::text) FILTER (WHERE d.refobjsubid > 0),
               '{}') END
      FROM pg_catalog.pg_depend AS d
      JOIN pg_catalog.pg_class AS c ON c.oid = d.refobjid
      LEFT JOIN pg_catalog.pg_attribute AS a
        ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
     WHERE d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass
       AND (d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND d.objid = %(function)s
            OR d.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass
               AND EXISTS (SELECT FROM pg_catalog.pg_rewrite AS r
                            WHERE r.oid = d.objid AND r.ev_class <> d.refobjid
                              AND r.ev_class = ANY (%(views)s::oid[])))
     GROUP BY 1, 2
"""
_ALL_COLUMNS = """
    SELECT a.attname::text FROM pg_catalog.pg_attribute AS a
     WHERE a.attrelid = %(relid)s AND a.attnum > 0 AND NOT a.attisdropped
"""
_MAY_READ = """
    SELECT c.oid::pg_catalog.regclass::text, c.relkind::text,
           pg_catalog.has_table_privilege(c.oid, 'SELECT')
      FROM pg_catalog.pg_class AS c WHERE c.oid = %(relid)s
"""

ReadViews = Callable[[Collection[int]], Mapping[int, str]]


class _UnknownError(Exception):
    """Nobody can tell when the answer of a function changes; says why."""

    def __init__(self, why: str, *, of_time: bool = False) -> None:
        super().__init__(why)
        self.of_time = of_time


@dataclass(slots=True)
class Bodies:
    """The bodies of the STABLE functions that a query calls; empty if one cannot be followed."""

    # Tables, each with the columns that are read, and the function that reads it.
    reads: dict[int, set[str]] = field(default_factory=dict)
    readers: dict[int, str] = field(default_factory=dict)
    rules: dict[int, str] = field(default_factory=dict)  # of the views in them
    trees: list[str] = field(default_factory=list)
    functions: set[int] = field(default_factory=set)  # not built in, called in the bodies
    refusals: list[Refusal] = field(default_factory=list)  # of those that cannot be followed


def read_bodies(
    connection: Connection[TupleRow], functions: Iterable[Function], read_views: ReadViews
) -> Bodies:
    """Find out what the STABLE functions among some read; leaves no trace, and runs no code."""
    bodies, refusals, asked = Bodies(), list[Refusal](), set[int]()
    # Each with the function of the query that leads to it.
    pending = [(one, one) for one in functions if _may_read(one)]
    while pending:
        function, called = pending.pop()
        if function.oid in asked:
            continue
        asked.add(function.oid)
        try:
            _check_number(len(asked))
            nested = _read(connection, function, bodies, read_views)
        except _UnknownError as error:
            refusals.append(_refusal(called, function, error))
            continue
        bodies.functions.update(nested.own)
        pending += [(one, called) for one in nested.rows if _may_read(one)]
    return Bodies(refusals=refusals) if refusals else bodies


def _check_number(number: int) -> None:
    if number > _MOST:
        raise _UnknownError(f"which leads to more than {_MOST} others")


def _may_read(function: Function) -> bool:
    return function.own and function.volatility == "s" and function.kind == "f"


def _refusal(called: Function, function: Function, error: _UnknownError) -> Refusal:
    of = f' of the aggregate "{called.aggregate}"' if called.aggregate else ""
    via = "" if function is called else f'which calls "{function.name}", '
    passes = "Rows may have to leave as time passes, without any change; declare"
    return Refusal(
        f'the function "{called.name}"{of}, {via}{error}',
        called.place,
        hint=f"{passes if error.of_time else 'Declare'} the function IMMUTABLE if it depends on its"
        " arguments alone, write it in SQL with qualified names, so that the tables that it reads"
        " are known, or use refresh_mode = 'FULL' or 'AUTO'.",
    )


def _read(
    connection: Connection[TupleRow], function: Function, bodies: Bodies, read_views: ReadViews
) -> Functions:
    """Add what one function reads; return the functions that it calls."""
    row = connection.execute(_DESCRIBE, {"oid": function.oid}).fetchone()
    if row is None:
        raise _UnknownError("which was dropped a moment ago")
    language, tree, text, path = row
    if language != "sql":
        raise _UnknownError(
            f"which may read the current time or a table: it is written in {language}, and"
            " PostgreSQL does not tell what it reads"
        )
    with connection.transaction(force_rollback=True):
        number = function.oid
        if tree is None:
            number, tree = _bind(connection, function.oid, text, path or OWN_PATH)
        rules = read_views(relations_in([tree]))
        trees = [tree, *rules.values()]
        nested = Functions.read(connection, trees)
        _check(trees, nested)
        whole = any(map(_WHOLE_ROW_IN_TREE.search, trees))
        values = {"function": number, "views": list(rules), "all": whole}
        found = connection.execute(_COLUMNS, values).fetchall()
    # PostgreSQL records no dependency on what it brings itself.
    if relations_in(trees) - {relid for relid, _, _ in found}:
        raise _UnknownError("which reads a system catalog")
    for relid, kind, columns in found:
        if kind == "v" and relid not in rules:
            raise _UnknownError("which reads a view of the system")
        if kind != "v":
            _watch(connection, function, bodies, relid, columns)
    bodies.rules.update(rules)
    bodies.trees += trees
    return nested


def relations_in(trees: Iterable[str]) -> set[int]:
    """Return the relations that parse trees name."""
    return {int(oid) for tree in trees for oid in _RELATION_IN_TREE.findall(tree)}


def _bind(connection: Connection[TupleRow], function: int, text: str, path: str) -> tuple[int, str]:
    """Let PostgreSQL bind a body that is kept as a text; return the probe and its parse tree."""
    connection.execute("SELECT pg_catalog.set_config('search_path', %s, true)", [path])
    [(arguments, result)] = connection.execute(_SIGNATURE, {"oid": function}).fetchall()
    probe = f"CREATE FUNCTION {_PROBE}({arguments}) RETURNS {result} BEGIN ATOMIC {text}\n; END"
    try:
        with connection.transaction():
            # With the extended protocol, which "binary" selects: so it is one statement.
            connection.execute(trusted(probe), binary=True)
    except psycopg.Error as error:
        message = error.diag.message_primary or "an error"
        raise _UnknownError(
            f"whose body cannot be read under the search path of a refresh ({path}): {message}"
        ) from error
    [(oid, tree)] = connection.execute(_FIND_PROBE).fetchall()
    return oid, tree


def _check(trees: Collection[str], nested: Functions) -> None:
    """Raise why the answer may change although no table has."""
    text = "".join(trees)
    for one in nested.rows:
        if one.volatility == "v":
            raise _UnknownError(f'which calls the volatile function "{one.name}"')
        if one.tells_of_session:
            raise _UnknownError(
                f'which calls "{one.name}", and that tells of the session, the server or the'
                " catalogs"
            )
    if nested.reads_time(trees):
        raise _UnknownError("which reads the current time or the session", of_time=True)
    if nested.shows_names(trees):
        raise _UnknownError("which shows names of the catalogs as text")
    for pattern, why in (
        (_WRITES_IN_TREE, "which writes"),
        (_SAMPLE_IN_TREE, "which reads a sample of a table"),
        (_SYSTEM_COLUMN_IN_TREE, "which reads a system column"),
        (_OPEN_LIMIT_IN_TREE, "whose body has LIMIT or OFFSET without ORDER BY"),
    ):
        if pattern.search(text):
            raise _UnknownError(why)


def _watch(
    connection: Connection[TupleRow],
    function: Function,
    bodies: Bodies,
    relid: int,
    columns: Collection[str] | None,
) -> None:
    """Add a table whose changes a refresh has to notice, or raise why it cannot."""
    [(name, kind, readable)] = connection.execute(_MAY_READ, {"relid": relid}).fetchall()
    if columns is None:
        rows = connection.execute(_ALL_COLUMNS, {"relid": relid}).fetchall()
        columns = [column for (column,) in rows]
    if kind not in {"r", "p"} or not readable:
        what = "whose changes have no triggers" if readable else "which you may not read"
        raise _UnknownError(f'which reads "{name}", {what}')
    try:
        get_source(connection, relid, sorted(columns))
    except TrickleError as error:
        raise _UnknownError(f"which reads a table that cannot be captured: {error}") from error
    bodies.reads.setdefault(relid, set()).update(columns)
    bodies.readers.setdefault(relid, function.name)
