"""What a migration of the catalog would do, as a rehearsal found it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pgtrickle.model.text.shown import Shown


@dataclass(frozen=True, slots=True)
class MigrationStep:
    """One step of a migration: what its file says about it, and how long it took."""

    name: str
    why: str
    reads: str
    locks: str
    took_ms: float | None  # None if it was not rehearsed


@dataclass(frozen=True, slots=True)
class TakenLock:
    """A lock that a step takes, and that is held until the end of the migration."""

    relation: str
    mode: str
    step: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Blocker:
    """A transaction of somebody else that a migration has to wait for."""

    pid: int | None  # None for a prepared transaction
    role: str | None
    application: str | None
    relation: str
    mode: str
    open_seconds: float | None  # since its transaction began, if the role may see that


@dataclass(frozen=True, slots=True)
class MigrationPlan(Shown):
    """What ``migrate`` would do now; it was tried in a transaction that was rolled back."""

    catalog_version: int
    package_version: int  # of the catalog that this package needs
    rehearsed: bool  # False: the locks could not be had, and nothing was tried
    steps: tuple[MigrationStep, ...] = ()
    locks: tuple[TakenLock, ...] = ()  # those that keep others from reading or writing
    blockers: tuple[Blocker, ...] = ()
    waited_ms: float = 0.0  # for others to release what the migration locks
    took_ms: float = 0.0  # while the locks were held
    daemon: str | None = None  # the daemon that leads, and steps down
    refreshes: tuple[str, ...] = ()  # those in flight, which start again


def read_header(text: str) -> Mapping[str, str]:
    r"""Return the header of a migration by its words: why, reads, locks, undo.

    >>> read_header("-- 0002 · a\n--\n-- Why:   one\n--        two.\n-- Undo:  none\n\nSELECT 1;")
    {'Why': 'one two.', 'Undo': 'none'}
    """
    found: dict[str, str] = {}
    word = ""
    for line in text.partition("\n\n")[0].splitlines():
        said = line.removeprefix("--").strip()
        head, colon, rest = said.partition(":")
        if colon and head in {"Why", "Reads", "Locks", "Undo"}:
            word, said = head, rest.strip()
        if word and said:
            found[word] = f"{found.get(word, '')} {said}".strip()
    return found
