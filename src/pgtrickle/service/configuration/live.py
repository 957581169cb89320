"""Settings that change while the process runs: what the database says of them, looked at again.

A session keeps the values that were assigned to its role and database when it began, and those of
a pool live for an hour.  So assignments are read where PostgreSQL keeps them; of the session's own
value counts what came from a file of the server, which a reload changes, or from the options of the
connection.
"""

from __future__ import annotations

import logging
import math
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import psycopg

from pgtrickle.catalog.settings_table import Said, list_said
from pgtrickle.errors import SettingError
from pgtrickle.session import Session
from pgtrickle.settings import Settings, hide_secret, load_settings, settings_for_restart

logger = logging.getLogger(__name__)

_LASTS = 0.9  # seconds for which an answer is good
_IN_OPTIONS = re.compile(r"pg_trickle\.([a-z_]+)", re.IGNORECASE)


@dataclass(slots=True)
class LiveSettings:
    """The settings of a process that follows what the database says of them.

    ``load`` makes settings of stored values, ``stored`` are those of the start.
    """

    load: Callable[[Mapping[str, str]], Settings]
    stored: Mapping[str, str]
    of_guest: bool = False  # who does not read the table of the catalog
    listeners: list[Callable[[], object]] = field(default_factory=list)  # told of each change
    version: int = 0  # counts the changes
    session: Mapping[str, str] = field(
        default_factory=dict
    )  # of the stored, those not of the table
    _looked: float = -math.inf  # on the monotonic clock
    _turn: threading.Lock = field(default_factory=threading.Lock)
    # What was once assigned to the role or the database: a session may have it still.
    _withdrawn: dict[str, set[str]] = field(default_factory=dict)
    _assigned: frozenset[str] = frozenset()  # the names, at the last look
    outdated: bool = False  # sessions have what is no longer assigned, and hide what a file says
    _refused: set[tuple[str, str]] = field(default_factory=set)
    _waiting: dict[str, object] = field(default_factory=dict)  # for a restart

    def follow(self, connection: Session, before: Settings) -> Settings:
        """Return the settings of this moment, by a query if the last answer is old.

        What cannot be read, or is no value, changes nothing.
        """
        if time.monotonic() - self._looked < _LASTS or not connection.idle:
            return before
        if not self._turn.acquire(blocking=False):
            return before
        try:
            self._looked = time.monotonic()
            return self._look(connection, before)
        except psycopg.Error as error:
            logger.debug("could not read the settings: %s", error)
            return before
        finally:
            self._turn.release()

    def _look(self, connection: Session, before: Settings) -> Settings:
        stored = self._stored(
            list_said(connection, of_guest=self.of_guest), connection.info.options
        )
        if stored == self.stored:
            return before
        after = self._settle(before, stored)
        self.stored = stored
        return after

    def expire(self) -> None:
        """Let the next use of a connection look again."""
        self._looked = -math.inf

    def _stored(self, said: Sequence[Said], options: str) -> dict[str, str]:
        """Return the values that are stored, by name: of those that cannot be, the one before."""
        fixed = {name.lower() for name in _IN_OPTIONS.findall(options)}
        found, of_session = {}, {}
        for one in said:
            if one.assigned is not None:
                self._withdrawn.setdefault(one.name, set()).add(one.assigned)
            gone = one.assigned is None and one.session in self._withdrawn.get(one.name, ())
            in_session = one.name in fixed or (one.assigned is None and not gone)
            own = one.session if in_session else one.assigned
            if own is not None:
                of_session[one.name] = own
            value = one.table if own is None else own
            if value is not None and not self._is_value(one.name, value):
                value = self.stored.get(one.name)
            if value is not None:
                found[one.name] = value
        self.session = of_session
        assigned = frozenset(one.name for one in said if one.assigned is not None)
        self.outdated = not assigned >= self._assigned
        self._assigned = assigned
        return found

    def _is_value(self, name: str, value: str) -> bool:
        """Tell whether a setting can have a value; what it cannot have is reported once."""
        try:
            load_settings(stored={name: value}, environment={})
        except SettingError as error:
            if "${ENV:" in value:  # looked up where it is used
                return True
            if (name, value) not in self._refused:
                self._refused.add((name, value))
                logger.warning("%s; the value before it stays: %s", error, error.hint)
            return False
        return True

    def _settle(self, before: Settings, stored: Mapping[str, str]) -> Settings:
        """Return the settings by what is stored now; what needs a restart stays."""
        try:
            wanted = self.load(stored)
        except SettingError as error:
            logger.warning("%s; the settings stay as they are", error)
            return before
        kept = {name: getattr(before, name) for name in settings_for_restart()}
        for name, value in kept.items():
            new = getattr(wanted, name)
            if new != value and self._waiting.get(name) != new:
                logger.warning(
                    "the setting %s is now %s: it takes a restart of this process, which has %s",
                    *(name, hide_secret(name, new), hide_secret(name, value)),
                )
            self._waiting[name] = new
        after = replace(wanted, **kept)
        for name in after.__dataclass_fields__:
            old, new = getattr(before, name), getattr(after, name)
            if old != new:
                shown = (name, hide_secret(name, new), hide_secret(name, old))
                logger.info("the setting %s is now %s, it was %s", *shown)
        if after != before:
            self.version += 1
        return after

    def tell(self) -> None:
        """Tell those who listen that the settings have changed."""
        for listener in list(self.listeners):
            listener()
