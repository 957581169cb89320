"""What Spark reads of an outbox: which entries in which task, and their rows.

Executors run ``read_part``; nothing else of it needs more than a connection.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.errors import ChangesGoneError, ConnectionLostError, SettingError, TrickleError
from pgtrickle.model.sql_type import Column
from pgtrickle.model.text.names import quote_identifier
from pgtrickle.model.text.trusted import trusted
from pgtrickle.session import FIX_PATH
from pgtrickle.settings import expand_secrets
from pgtrickle.transit.fixed_settings import FIXED_TEXTS
from pgtrickle.transit.source_options import without_password

SCHEMA: Final = (
    "outbox_id bigint, row_number bigint, op string, key string, before string, after string,"
    " reset boolean, data_timestamp timestamp_ltz"
)
_NAMES = frozenset(
    {"dsn", "stream_table", "starting", "ending_id", "max_entries_per_trigger", "group"}
)
_WORDS = ("earliest", "latest", "contents")
_TASK_CHANGES = 50_000  # that a task reads, unless one entry has more
_PAGE = 5_000


@dataclass(frozen=True, slots=True)
class OutboxOptions:
    """A read as its options describe it."""

    dsn: str
    stream_table: str
    starting: str | int = "earliest"
    ending: int | None = None
    max_entries: int | None = None
    group: str | None = None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> OutboxOptions:
        """Read the options, or raise ST501.

        >>> OutboxOptions.of({"dsn": "dbname=shop", "stream_table": "t", "starting": "7"}).starting
        7
        """
        if unknown := sorted(set(options) - _NAMES):
            raise SettingError(
                f'there is no option "{unknown[0]}"',
                hint=f"Options are: {', '.join(sorted(_NAMES))}.",
            )
        if not options.get("dsn") or not options.get("stream_table"):
            raise SettingError(
                "an outbox is read by the options dsn and stream_table",
                hint='As in spark.read.format("pgtrickle").option("dsn", "dbname=shop").',
            )
        starting = options.get("starting", "earliest")
        most = options.get("max_entries_per_trigger")
        end = options.get("ending_id")
        return cls(
            without_password(options["dsn"], SettingError),
            options["stream_table"],
            starting if starting in _WORDS else _number(starting, "starting"),
            None if end is None else _number(end, "ending_id"),
            None if most is None else max(_number(most, "max_entries_per_trigger"), 1),
            options.get("group"),
        )

    def first_id(self, position: Position) -> int:
        """Return the entry after which a read begins, or raise ST802."""
        if isinstance(self.starting, int):
            if not position.first_id <= self.starting <= position.last_id + 1:
                raise ChangesGoneError(
                    f'the outbox of "{self.stream_table}" has entries {position.first_id} to'
                    f" {position.last_id}, and no entry {self.starting}",
                    hint="Start with the contents, or with an entry that is kept.",
                )
            return self.starting - 1
        return position.last_id if self.starting == "latest" else position.first_id - 1


@dataclass(frozen=True, slots=True)
class Position:
    """Which entries an outbox holds."""

    pgt_id: int
    first_id: int
    last_id: int


@dataclass(frozen=True, slots=True)
class Part:
    """What one task reads: some entries, or the contents after the last of them."""

    first_id: int
    last_id: int
    contents: bool = False
    entries: tuple[tuple[int, bool, datetime], ...] = ()  # reset, and the moment


def _number(text: str, option: str) -> int:
    if not text.isdecimal() or len(text) > 18:
        raise SettingError(
            f'the option {option} cannot be "{text}"',
            hint=f"Give the number of an entry{', or ' + ', '.join(_WORDS)}."
            if option == "starting"
            else "Give a number.",
        )
    return int(text)


@contextmanager
def coded() -> Iterator[None]:
    """Put the code and the hint into the message: Spark passes on nothing else."""
    try:
        yield
    except TrickleError as error:
        raise RuntimeError(f"{error.code}: {error}. {error.hint}") from error
    except psycopg.Error as error:
        code, hint = error.sqlstate or ConnectionLostError.code, error.diag.message_hint or ""
        raise RuntimeError(f"{code}: {error.diag.message_primary or error}. {hint}") from error


@contextmanager
def _opened(options: OutboxOptions, *, one_moment: bool = False) -> Iterator[Connection[TupleRow]]:
    """Connect for one transaction, which may give entries their numbers.

    Entries never change; only the contents must be of one moment with the position.
    """
    with psycopg.connect(
        expand_secrets(options.dsn, os.environ), prepare_threshold=None
    ) as connection:
        if one_moment:
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        connection.execute(trusted(FIX_PATH))
        connection.execute("SET LOCAL row_security = on")
        yield connection


_POSITION = "SELECT pgt_id, first_id, last_id FROM pgtrickle.outbox_position(%(name)s, %(path)s)"


def find_position(options: OutboxOptions) -> Position:
    """Return which entries the outbox holds now."""
    with _opened(options) as connection:
        return _position(connection, options)


def _position(connection: Connection[TupleRow], options: OutboxOptions) -> Position:
    values = {"name": options.stream_table, "path": _find_path(connection)}
    return Position(*connection.execute(_POSITION, values).fetchall()[0])


_FIND_PATH = """
    SELECT pg_catalog.array_agg(n.nspname ORDER BY r.place)
      FROM pg_catalog.pg_settings AS s,
           pg_catalog.unnest(pg_catalog.string_to_array(
               pg_catalog.replace(s.reset_val, '"$user"', current_user), ', '))
           WITH ORDINALITY AS r (name, place)
      JOIN pg_catalog.pg_namespace AS n
        ON n.nspname = pg_catalog.btrim(r.name, '"')
     WHERE s.name = 'search_path'
"""


def _find_path(connection: Connection[TupleRow]) -> list[str]:
    """Return the schemas of the role's own path: ours is another."""
    [(path,)] = connection.execute(_FIND_PATH).fetchall()
    return list(path or [])


_ENTRIES = """
    SELECT outbox_id, inserted + updated + deleted, reset, data_timestamp
      FROM pgtrickle.outbox_entries(%(name)s, %(first)s, %(last)s, NULL, %(path)s)
"""


def plan_parts(options: OutboxOptions, first: int, last: int) -> list[Part]:
    """Divide the entries of a batch among tasks; an entry is read by one of them."""
    if first > last:
        return []
    with _opened(options) as connection:
        values = {
            "name": options.stream_table,
            "first": first,
            "last": last,
            "path": _find_path(connection),
        }
        found = connection.execute(_ENTRIES, values).fetchall()
    parts: list[list[tuple[int, bool, datetime]]] = []
    size = 0
    for outbox_id, changes, reset, moment in found:
        if not parts or size + changes > _TASK_CHANGES:
            parts.append([])
            size = 0
        parts[-1].append((outbox_id, reset, moment))
        size += changes
    return [Part(one[0][0], one[-1][0], entries=tuple(one)) for one in parts]


def read_part(options: OutboxOptions, part: Part) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of one task."""
    if part.first_id > part.last_id:
        return
    if not part.contents:
        with _opened(options) as connection:
            yield from _read_changes(connection, options, part)
        return
    find_position(options)  # gives numbers: what is left then is too young for the next moment
    with _opened(options, one_moment=True) as connection:
        yield from _read_contents(connection, options, part.last_id)


_CHANGES = """
    SELECT outbox_id, row_number, op, key::pg_catalog.text, before::pg_catalog.text,
           after::pg_catalog.text
      FROM pgtrickle.outbox_rows(%(name)s, %(first)s, %(last)s, %(after)s, %(most)s, %(path)s)
"""


def _read_changes(
    connection: Connection[TupleRow], options: OutboxOptions, part: Part
) -> Iterator[tuple[Any, ...]]:
    more = {outbox_id: (reset, moment) for outbox_id, reset, moment in part.entries}
    values = {
        "name": options.stream_table,
        "last": part.last_id,
        "most": _PAGE,
        "path": _find_path(connection),
    }
    seen = (part.first_id, 0)
    while True:
        page = connection.execute(
            _CHANGES, {**values, "first": seen[0], "after": seen[1]}
        ).fetchall()
        for row in page:
            yield (*row, *more[row[0]])
        if len(page) < _PAGE:
            return
        seen = (page[-1][0], page[-1][1])


_COLUMNS = """
    SELECT s.pgt_schema, s.pgt_name, v.key_columns
      FROM pgtrickle.pgt_stream_tables AS s
      JOIN pgtrickle.pgt_outbox_config AS c USING (pgt_id)
      JOIN pgtrickle.pgt_outbox_schemas AS v USING (pgt_id, schema_version)
     WHERE s.pgt_id = %(id)s
"""
_TYPES = """
    SELECT a.attname::pg_catalog.text, a.atttypid::pg_catalog.int8, a.atttypmod
      FROM pg_catalog.pg_attribute AS a
     WHERE a.attrelid = %(table)s::pg_catalog.regclass AND a.attnum > 0 AND NOT a.attisdropped
     ORDER BY a.attnum
"""
_RESETS = """
    SELECT pg_catalog.count(*)
      FROM pgtrickle.outbox_entries(%(name)s, %(first)s, NULL, NULL, %(path)s)
     WHERE reset
"""


def _read_contents(
    connection: Connection[TupleRow], options: OutboxOptions, at: int
) -> Iterator[tuple[Any, ...]]:
    """Yield the contents after an entry: those of now, without what came after it."""
    connection.execute(FIXED_TEXTS)
    position, path = _position(connection, options), _find_path(connection)
    values: dict[str, Any] = {"name": options.stream_table, "first": at + 1, "path": path}
    [(resets,)] = connection.execute(_RESETS, values).fetchall()
    if resets:
        raise ChangesGoneError(
            f'the columns of "{options.stream_table}" have changed since the query began',
            hint="Begin a new query, with a checkpoint of its own.",
        )
    [(schema, name, key)] = connection.execute(_COLUMNS, {"id": position.pgt_id}).fetchall()
    table = f"{quote_identifier(schema)}.{quote_identifier(name)}"
    rows = _write_contents(_list_columns(connection, table), table, now=position.last_id == at)
    with connection.cursor(name="contents") as cursor:
        cursor.itersize = _PAGE
        cursor.execute(trusted(rows), {**values, "key": key})
        for number, (own, row) in enumerate(cursor, 1):
            yield at, number, "insert", own, None, row, True, None


def _list_columns(connection: Connection[TupleRow], table: str) -> Sequence[Column]:
    # Executors that read entries do without these.
    from pgtrickle.binding.sql_types import resolve_types  # noqa: PLC0415 - see above

    found = connection.execute(_TYPES, {"table": table}).fetchall()
    types = resolve_types(connection, [(oid, modifier) for _, oid, modifier in found])
    return [Column(name, type_) for (name, *_), type_ in zip(found, types, strict=True)]


def _write_contents(columns: Sequence[Column], table: str, *, now: bool) -> str:
    from pgtrickle.storage.outbox_changes import write_changes  # noqa: PLC0415 - as above

    document = write_changes(columns, None, f"ONLY {table}", "1").replace("%", "%%")
    rows = f"SELECT c.after AS row, 1 AS weight FROM (\n{document}\n) AS c"
    if not now:
        later = "pgtrickle.outbox_rows(%(name)s, %(first)s, NULL, 0, NULL, %(path)s)"
        rows += (
            f"\nUNION ALL SELECT l.before, 1 FROM {later} AS l WHERE l.before IS NOT NULL"
            f"\nUNION ALL SELECT l.after, -1 FROM {later} AS l WHERE l.after IS NOT NULL"
        )
        # By their texts: equal numbers may have other digits.
        rows = (
            f"SELECT n.row::pg_catalog.jsonb FROM (SELECT d.row::pg_catalog.text AS row,"
            f" sum(d.weight) AS weight FROM (\n{rows}\n) AS d GROUP BY 1) AS n,"
            f" pg_catalog.generate_series(1, n.weight::int8)"
        )
    own = (
        "CASE WHEN %(key)s::pg_catalog.text[] IS NOT NULL THEN (SELECT"
        " coalesce(pg_catalog.jsonb_object_agg(k, r.row -> k), '{}')"
        " FROM pg_catalog.unnest(%(key)s::pg_catalog.text[]) AS k) END"
    )
    return f"SELECT ({own})::pg_catalog.text, r.row::pg_catalog.text FROM (\n{rows}\n) AS r"


_SEEK = "SELECT pgtrickle.seek_offset(%(group)s, %(id)s)"


def commit_for_group(options: OutboxOptions, outbox_id: int) -> None:
    """Move a consumer group on to an entry."""
    with _opened(options) as connection:
        connection.execute(_SEEK, {"group": options.group, "id": outbox_id})
