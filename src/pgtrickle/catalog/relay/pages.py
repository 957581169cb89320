"""What a relay reads: pages of an outbox, and the contents with which a stream begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.errors import ChangesGoneError, StreamTableNotFoundError
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.model.text.trusted import trusted


@dataclass(frozen=True, slots=True)
class Followed:
    """The stream table of a pipeline, by its present name."""

    pgt_id: int
    relid: int
    database: str
    name: QualifiedName


_FIND = """
    SELECT s.pgt_id, s.pgt_relid::pg_catalog.int8, pg_catalog.current_database()::text,
           s.pgt_schema, s.pgt_name
      FROM pgtrickle.pgt_stream_tables AS s
     WHERE s.pgt_id = pgtrickle.find_stream_table(%(name)s, %(schemas)s::pg_catalog.name[])
"""


def find_followed(connection: Connection[TupleRow], name: str) -> Followed:
    """Return a stream table by its name; one without schema is looked for in ``public``."""
    row = connection.execute(_FIND, {"name": name, "schemas": ["public"]}).fetchone()
    if row is None:
        raise StreamTableNotFoundError(
            f'there is no stream table "{name[:200]}"', hint="List them with: pgtrickle list."
        )
    return Followed(row[0], row[1], row[2], QualifiedName(row[3], row[4]))


class Version(NamedTuple):
    """The columns of the rows, and their key, in one version of a stream."""

    version: int
    columns: list[dict[str, str]]
    key_columns: list[str] | None


_SCHEMAS = (
    "SELECT schema_version, columns, key_columns FROM pgtrickle.outbox_schema(%(name)s, '{}')"
)


def list_versions(connection: Connection[TupleRow], name: QualifiedName) -> list[Version]:
    """Return the versions of the columns of an outbox."""
    return [Version(*row) for row in connection.execute(_SCHEMAS, {"name": name.sql})]


class Head(NamedTuple):
    """What is known of an entry beside its changes."""

    outbox_id: int
    reset: bool
    data_timestamp: datetime | None
    schema_version: int


class Row(NamedTuple):
    """One change, with JSON texts."""

    outbox_id: int
    row_number: int
    op: str
    key: str | None
    before: str | None
    after: str | None
    complete: bool  # nothing follows it in the range that was asked for


_HEADS = """
    SELECT outbox_id, reset, data_timestamp, schema_version
      FROM pgtrickle.outbox_entries(%(name)s, %(from)s, NULL, %(most)s, '{}')
"""
_ENTRIES_AT_ONCE = 500


def list_heads(connection: Connection[TupleRow], name: QualifiedName, from_id: int) -> list[Head]:
    """Return the next entries from one on; or raise ST801 or ST802."""
    values = {"name": name.sql, "from": from_id, "most": _ENTRIES_AT_ONCE}
    return [Head(*row) for row in connection.execute(_HEADS, values)]


# At least one row, however large.
_ROWS = """
    WITH texts AS MATERIALIZED (
        SELECT r.outbox_id, r.row_number, r.op, r.key::text AS key, r.before::text AS before,
               r.after::text AS after
          FROM pgtrickle.outbox_rows(%(name)s, %(from)s, %(to)s, %(after)s, %(most)s + 1, '{}') AS r
    ), sized AS (
        SELECT t.*, row_number() OVER w AS place, count(*) OVER () AS found,
               sum(octet_length(coalesce(before, '')) + octet_length(coalesce(after, ''))) OVER w
                   AS bytes
          FROM texts AS t
        WINDOW w AS (ORDER BY t.outbox_id, t.row_number)
    )
    SELECT outbox_id, row_number, op, key, before, after, place = found
      FROM sized
     WHERE place = 1 OR (place <= %(most)s AND bytes <= %(bytes)s)
     ORDER BY place
"""
_MOST_BYTES = 16_000_000


def list_rows(
    connection: Connection[TupleRow],
    name: QualifiedName,
    from_id: int,
    to_id: int,
    after_row: int,
    most: int,
) -> list[Row]:
    """Return the next changes of some entries: so many, and 16 MB of them, at most."""
    values = {
        "name": name.sql,
        "from": from_id,
        "to": to_id,
        "after": after_row,
        "most": most,
        "bytes": _MOST_BYTES,
    }
    return list(map(Row._make, connection.execute(_ROWS, values).fetchall()))


_COLUMNS = """
    SELECT a.attname::text, a.atttypid::pg_catalog.int8, a.atttypmod
      FROM pg_catalog.pg_attribute AS a
     WHERE a.attrelid = %(relid)s::pg_catalog.oid AND a.attnum > 0 AND NOT a.attisdropped
     ORDER BY a.attnum
"""


def list_columns(connection: Connection[TupleRow], relid: int) -> Sequence[tuple[str, int, int]]:
    """Return the columns of a table: name, oid and modifier of the type."""
    return [
        (name, oid, modifier)
        for name, oid, modifier in connection.execute(_COLUMNS, {"relid": relid})
    ]


# Any role may have taken the name before, to let entries go that are not delivered.
_OURS = """pg_catalog.pg_has_role(
               g.owner_oid, (SELECT n.nspowner FROM pg_catalog.pg_namespace AS n
                              WHERE n.nspname = 'pgtrickle'), 'USAGE')"""
# Entries that a relay has yet to deliver are kept for it.
_MAKE_GROUP = """
    SELECT pgtrickle.create_consumer_group(%(group)s, %(name)s, %(start)s, '{}')
"""
_HAS_GROUP = """
    SELECT EXISTS (SELECT FROM pgtrickle.pgt_consumer_groups AS g
                    WHERE g.group_name = %(group)s AND g.pgt_id = %(pgt_id)s
                      AND {ours})
""".replace("{ours}", _OURS)
_DROP_OTHERS = """
    DELETE FROM pgtrickle.pgt_consumer_groups AS g
     WHERE g.group_name = %(group)s AND NOT (g.pgt_id = %(pgt_id)s AND {ours})
""".replace("{ours}", _OURS)


def make_group(
    connection: Connection[TupleRow], group: str, followed: Followed, *, earliest: bool
) -> None:
    """Let the outbox keep entries for a pipeline from now on."""
    values = {
        "group": group,
        "name": followed.name.sql,
        "start": "earliest" if earliest else "latest",
        "pgt_id": followed.pgt_id,
    }
    connection.execute(trusted(_DROP_OTHERS), values)
    [[known]] = connection.execute(trusted(_HAS_GROUP), values).fetchall()
    if not known:
        connection.execute(_MAKE_GROUP, values)


def check_group(connection: Connection[TupleRow], group: str, followed: Followed) -> None:
    """Raise ST802 unless the outbox has kept entries for a pipeline without interruption.

    Without outbox there is no group: what was changed before it was enabled again is in no entry.
    """
    values = {"group": group, "pgt_id": followed.pgt_id}
    [[known]] = connection.execute(trusted(_HAS_GROUP), values).fetchall()
    if not known:
        raise ChangesGoneError(
            f"the outbox of {followed.name} has not kept its entries for this pipeline",
            hint="Let it begin again: pgtrickle relay resume PIPELINE --again.",
        )


_RELEASE = """
    UPDATE pgtrickle.pgt_consumer_offsets AS o
       SET committed_id = %(id)s, committed_at = pg_catalog.clock_timestamp()
      FROM pgtrickle.pgt_consumer_groups AS g
     WHERE g.group_name = %(group)s AND o.group_id = g.group_id
       AND o.committed_id IS DISTINCT FROM %(id)s
"""


def release_entries(connection: Connection[TupleRow], group: str, delivered_id: int) -> None:
    """Let the outbox forget entries that were delivered."""
    connection.execute(_RELEASE, {"group": group, "id": delivered_id})


_LETTER = """
    INSERT INTO pgtrickle.pgt_relay_dead_letters
        (pipeline, pgt_id, outbox_id, in_contents, row_number, op, key, before, after,
         schema_version, data_timestamp, error_code, error)
    VALUES (%(pipeline)s, %(pgt_id)s, %(outbox_id)s, %(in_contents)s, %(row_number)s, %(op)s,
            %(key)s, %(before)s, %(after)s, %(schema_version)s, %(data_timestamp)s, %(code)s,
            %(error)s)
        ON CONFLICT DO NOTHING
"""


def add_letter(connection: Connection[TupleRow], values: dict[str, object]) -> None:
    """Set a message aside."""
    connection.execute(_LETTER, values)


_DEAD_KEYS = """
    SELECT DISTINCT key FROM pgtrickle.pgt_relay_dead_letters
     WHERE pipeline = %(pipeline)s AND key IS NOT NULL
"""


def list_dead_keys(connection: Connection[TupleRow], pipeline: str) -> set[str]:
    """Return the keys of which messages were set aside."""
    return {key for (key,) in connection.execute(_DEAD_KEYS, {"pipeline": pipeline})}


class Letter(NamedTuple):
    """A dead letter that is to be delivered again."""

    dead_letter_id: int
    outbox_id: int
    in_contents: bool
    row_number: int
    op: str
    key: str | None
    before: str | None
    after: str | None
    schema_version: int
    data_timestamp: datetime | None


_WANTED = """
    SELECT dead_letter_id, outbox_id, in_contents, row_number, op, key, before, after,
           schema_version, data_timestamp
      FROM pgtrickle.pgt_relay_dead_letters
     WHERE pipeline = %(pipeline)s AND pgt_id = %(pgt_id)s AND replay_at IS NOT NULL
     ORDER BY outbox_id, in_contents, row_number
     LIMIT 100
"""


def list_wanted_letters(
    connection: Connection[TupleRow], pipeline: str, pgt_id: int
) -> list[Letter]:
    """Return dead letters that somebody wants delivered again, in the order of the stream."""
    values = {"pipeline": pipeline, "pgt_id": pgt_id}
    return [Letter(*row) for row in connection.execute(_WANTED, values)]


def remove_letter(connection: Connection[TupleRow], letter: Letter) -> None:
    """Forget a dead letter that was delivered after all."""
    connection.execute(
        "DELETE FROM pgtrickle.pgt_relay_dead_letters WHERE dead_letter_id = %s",
        [letter.dead_letter_id],
    )


def keep_letter(connection: Connection[TupleRow], letter: Letter, code: str, error: str) -> None:
    """Note that a dead letter was refused again, and that its key waits with it."""
    connection.execute(_KEEP_LETTER, {"id": letter.dead_letter_id, "code": code, "error": error})


# Later ones of its key may be beyond those that were listed.
_KEEP_LETTER = """
    WITH kept AS (
        UPDATE pgtrickle.pgt_relay_dead_letters
           SET replay_at = NULL, error_code = %(code)s, error = %(error)s
         WHERE dead_letter_id = %(id)s
        RETURNING pipeline, pgt_id, key
    )
    UPDATE pgtrickle.pgt_relay_dead_letters AS d SET replay_at = NULL
      FROM kept AS k
     WHERE d.pipeline = k.pipeline AND d.pgt_id = k.pgt_id AND d.key = k.key
       AND d.dead_letter_id <> %(id)s
"""
