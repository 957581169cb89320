"""The rows of a stream table in a file: written under the snapshot of a dump, and loaded again.

Loaded rows belong to a moment of another database, so the next refresh is REINITIALIZE: it computes
the contents and writes what differs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import psycopg
from psycopg import Connection

from pgtrickle.capture.windows import get_frontier
from pgtrickle.catalog.refreshes.leases import Lease
from pgtrickle.catalog.stream_tables import update_needs_reinit
from pgtrickle.errors import DumpDamagedError, SettingError
from pgtrickle.model.definitions.dump import DumpedRows
from pgtrickle.model.stream_table import Action, InitiatedBy, StreamTable
from pgtrickle.model.text.names import QualifiedName, quote_identifier
from pgtrickle.model.text.trusted import trusted
from pgtrickle.plan.decide import Decision
from pgtrickle.service.claim import claimed
from pgtrickle.service.compile import Compiled
from pgtrickle.service.lease_keeper import keep_lease
from pgtrickle.service.lifecycle.snapshots.restore import compile_present
from pgtrickle.service.lock_waits import until_free
from pgtrickle.service.refreshing.commit import Committed, Outcome, commit, deliver_rest
from pgtrickle.service.refreshing.contents import Rows, replace_contents
from pgtrickle.service.refreshing.refresh import Basis, Prepared, Refresh
from pgtrickle.service.runtime import Runtime
from pgtrickle.storage.snapshot_copies import list_stored_columns
from pgtrickle.transit.fixed_settings import FIXED_SETTINGS

_STAGED = "pgtrickle_dumped_rows"
_BLOCK = 1 << 20
# In a restored database that was not refreshed yet, the oids on record mean nothing.
_FIND_TIME = """
    SELECT s.data_timestamp FROM pgtrickle.pgt_stream_tables AS s
     WHERE CASE WHEN pgtrickle.lies_here(s.frontier)
                THEN s.pgt_relid = pg_catalog.to_regclass(%(sql)s)
                ELSE s.pgt_schema = %(schema)s AND s.pgt_name = %(name)s END
"""


def write_rows(connection: Connection, name: QualifiedName, path: Path) -> DumpedRows:
    """Write the rows of a stream table as the transaction sees them."""
    [(moment,)] = connection.execute(
        _FIND_TIME, {"sql": name.sql, "schema": name.schema, "name": name.name}
    ).fetchall()
    _fix_texts(connection)
    found, statement = (
        hashlib.sha256(),
        f"COPY (SELECT {_columns(connection, name)} FROM ONLY {name.sql}) TO STDOUT",
    )
    try:
        with path.open("wb") as file, connection.cursor() as cursor:
            with cursor.copy(trusted(statement)) as copy:
                for block in copy:
                    file.write(block)
                    found.update(block)
            rows = cursor.rowcount
    except OSError as error:
        raise SettingError(
            f"{path} cannot be written: {error.strerror}", hint="Choose another place for the dump."
        ) from error
    return DumpedRows(path, rows, found.hexdigest(), moment)


def load_rows(runtime: Runtime, name: QualifiedName, rows: DumpedRows) -> int:
    """Give a stream table the rows of a dump; return how many it has."""
    with (
        claimed(runtime, name, InitiatedBy.INITIAL) as (found, lease),
        keep_lease(runtime, lease),
        runtime.connection() as writer,
    ):
        stream_table, compiled = compile_present(runtime, writer, found)
        loading = _Loading(runtime, stream_table, lease, compiled, rows)
        committed = until_free(runtime, writer, lambda: loading.exchange(writer))
        deliver_rest(committed)
    return rows.rows


@dataclass(frozen=True, slots=True)
class _Loading:
    """The loading of one stream table, which has been claimed."""

    runtime: Runtime
    stream_table: StreamTable
    lease: Lease
    compiled: Compiled
    rows: DumpedRows

    def exchange(self, writer: Connection) -> Committed:
        """Do all that becomes visible at once; it goes down in history as a refresh."""
        began = datetime.now(UTC)
        self._stage(writer)
        refresh = Refresh.begin(self.runtime, self.stream_table, self.lease, InitiatedBy.INITIAL)
        prepared = Prepared(refresh, self.compiled)
        with refresh.account.timed("apply"):
            rows = Rows.of_table(f'pg_temp."{_STAGED}"', self.compiled.columns)
            written = replace_contents(writer, prepared, rows)
        moment = self.rows.data_timestamp
        decision = Decision(Action.REINITIALIZE, f"rows of a dump of {moment}")
        basis = Basis(get_frontier(writer), moment, {}, began_at=began)
        with refresh.account.timed("commit"):
            committed = commit(writer, Outcome(prepared, decision, basis, written, restored=True))
        update_needs_reinit(writer, self.stream_table.id, needs_reinit=True)
        return committed

    def _stage(self, writer: Connection) -> None:
        name = self.stream_table.name
        _fix_texts(writer)
        listed = _columns(writer, name)
        writer.execute(
            trusted(
                f'CREATE TEMPORARY TABLE "{_STAGED}" ON COMMIT DROP AS'
                f" SELECT {listed} FROM ONLY {name.sql} WITH NO DATA"
            )
        )
        try:
            with (
                writer.cursor() as cursor,
                cursor.copy(trusted(f'COPY pg_temp."{_STAGED}" ({listed}) FROM STDIN')) as copy,
            ):
                for block in _blocks(self.rows.file):
                    copy.write(block)
        except (psycopg.DataError, psycopg.errors.BadCopyFileFormat) as error:
            raise DumpDamagedError(
                f'the rows of "{name}" in {self.rows.file} do not fit its columns',
                detail=str(error),
                hint="Restore without rows: remove the entry rows; the first load computes them.",
            ) from error


def _fix_texts(connection: Connection) -> None:
    """Let values have the same text in every database."""
    connection.execute(FIXED_SETTINGS)
    connection.execute("SET LOCAL lc_monetary = 'C'")


def _columns(connection: Connection, name: QualifiedName) -> str:
    return ", ".join(quote_identifier(one) for one, _ in list_stored_columns(connection, name))


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            yield block
