"""Start a refresh again if the rows that it has read are not valid.

Sources change their shape, their files and their names independently of snapshots. So findings
under a snapshot are compared with the present state before anything relies on them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TypeVar

from psycopg import Connection

from pgtrickle.binding.bound_objects import find_disturbance
from pgtrickle.capture.fingerprint import list_all_files
from pgtrickle.errors import ServerBusyError, TrickleError
from pgtrickle.service.refreshing.refresh import Basis, Prepared, Refresh
from pgtrickle.service.refreshing.snapshot import Snapshot

T = TypeVar("T")

_ATTEMPTS = 5  # until nobody alters a source between the check and the snapshot


class StartAgainError(Exception):
    """The refresh starts again from a later snapshot, with its lessons."""

    def __init__(self, refresh: Refresh) -> None:
        super().__init__(str(refresh.stream_table.name))
        self.refresh = refresh.learned(again=True)


def until_it_counts(
    attempt: Callable[[Refresh | None], T], in_vain: Callable[[Refresh], ServerBusyError]
) -> T:
    """Attempt something until it does not start again; after too many attempts raise ``in_vain``.

    Each attempt gets the refresh that made it start again, the first one None.
    """
    unfit: Refresh | None = None
    for _ in range(_ATTEMPTS - 1):
        try:
            return attempt(unfit)
        except StartAgainError as error:
            unfit = error.refresh
    try:
        return attempt(unfit)
    except StartAgainError as error:
        raise in_vain(error.refresh) from None


def check_meaning(writer: Connection, prepared: Prepared, basis: Basis, *, together: bool) -> None:
    """Start again if other functions than the bound ones may have computed the rows.

    A read finds functions by name when it begins, which is after they were compared.
    """
    if not basis.sources or not any(one.called for one in prepared.compiled.binding.objects):
        return
    with _looking(writer, prepared, together=together) as connection:
        found = find_disturbance(connection, prepared.stream_table.id)
    if found.rivals or found.changes:
        raise StartAgainError(prepared.refresh)


def check_files(writer: Connection, prepared: Prepared, basis: Basis, *, together: bool) -> None:
    """Start again if a relation looked empty, because its file was replaced meanwhile.

    Likewise if it was another one, because of a rename.
    """
    if not basis.files:
        return
    with _looking(writer, prepared, together=together) as connection:
        if _list_files(connection, prepared, basis) != basis.files:
            raise StartAgainError(prepared.refresh)


@contextmanager
def excused(snapshot: Snapshot, read: Sequence[tuple[Prepared, Basis]]) -> Iterator[None]:
    """Start again instead of raising an error that replaced files may have caused."""
    try:
        yield
    except TrickleError:
        if snapshot.connection.closed:
            raise
        for prepared, basis in read:
            with prepared.refresh.runtime.connection() as connection:
                if _list_files(connection, prepared, basis) != basis.files:
                    raise StartAgainError(prepared.refresh) from None
        raise


def _list_files(connection: Connection, prepared: Prepared, basis: Basis) -> dict[str, str]:
    return list_all_files(connection, basis.sources, prepared.stream_table.relid)


def _looking(
    writer: Connection, prepared: Prepared, *, together: bool
) -> AbstractContextManager[Connection]:
    """Return a connection that sees the current catalog; a group's transaction does not."""
    return prepared.refresh.runtime.connection() if together else nullcontext(writer)
