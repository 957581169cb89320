"""One life of a stream table: random steps, and what its contents have to be after each.

A life knows what the sources hold, which query is in force, and which rows the stream table showed
after the last step that may change them.  After a refresh or a new query these are PostgreSQL's own
answer, after a restore those of the snapshot; any other step leaves them alone.  A second stream
table counts the rows of the first, as everybody who follows it does.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import psycopg

from pgtrickle.errors import (
    ColumnsDifferError,
    QueryError,
    RestoreRefusedError,
    ShadowRefusedError,
    SnapshotMismatchError,
    TrickleError,
)
from pgtrickle.service.lifecycle.shadows.run import follow_due
from tests.fuzz.cases import Row, Table
from tests.fuzz.data import draw_tables, draw_window
from tests.fuzz.generate import draw_query
from tests.fuzz.kinds import Shown
from tests.fuzz.lifecycle.grounds import Grounds, close
from tests.fuzz.lifecycle.moving import take_along
from tests.fuzz.on_postgres import apply_change, create_source, find_differences
from tests.labs.lab import Lab
from tests.labs.lab import Row as Text
from tests.labs.own_aggregates import AGGREGATES

_ODD_SCHEMA = '"We ""said"" ☃"'
NAMES = (
    *("made", "made", "made", '"SELECT"', f'"{"m" * 60}☃"'),
    f'{_ODD_SCHEMA}."Sum\nof; --"',
    f"{_ODD_SCHEMA}.\"$do$ %s {{0}} 'it''s'\"",
)
_ODD_COLUMNS = ('"a""%d"', '"SELECT %d"', '"Größe; -- %d"', '"%% %%s %d"', '"{}? %d"', '"$%d"')
MODES = ("DIFFERENTIAL", "DIFFERENTIAL", "DIFFERENTIAL", "AUTO", "FULL")


class DifferentError(AssertionError):
    """The contents are not what they have to be."""


class Unanswered(Exception):  # noqa: N818 - not an error: another life is drawn
    """PostgreSQL itself does not answer the query, or the query cannot be maintained."""


@dataclass(frozen=True, slots=True)
class Saved:
    """A snapshot: the rows it has to bring back, and for which query in which mode."""

    rows: list[Text]
    query: Shown
    mode: str


@dataclass(slots=True)
class Life:
    """A stream table, and all that is known of it."""

    grounds: Grounds
    name: str  # of the seed and the number, from which everything is drawn
    draw: random.Random
    tables: tuple[Table, ...]
    off: tuple[str, ...]
    lab: Lab
    bags: dict[str, list[Row]]
    made: str  # the stream table, as SQL names it
    odd: bool  # its columns have names that have to be quoted
    query: Shown = field(init=False)
    mode: str = field(init=False)
    contents: list[Text] = field(init=False)
    counted: bool = False  # whether a second stream table counts its rows
    reinitializes: bool | None = False  # the next refresh; None: either is right
    saved: dict[str, Saved] = field(default_factory=dict)
    shadow: Shown | None = None  # the query that follows beside its own
    drawn: int = 0  # queries so far
    told: list[str] = field(default_factory=list)

    @classmethod
    def begin(cls, grounds: Grounds, name: str, off: tuple[str, ...]) -> Life:
        """Make sources with a first stream table over them."""
        draw = random.Random(name)
        tables = draw_tables(draw)
        bags = {table.name: list(table.rows) for table in tables}
        made, odd = draw.choice(NAMES), draw.random() < 0.3
        life = cls(grounds, name, draw, tables, off, grounds.fresh(), bags, made, odd)
        try:
            life.make_sources(life.lab)
            life.create()
        except DifferentError as difference:
            close(life.lab)
            raise DifferentError("\n".join([*life.told, str(difference)])) from None
        except BaseException:
            close(life.lab)
            raise
        return life

    def tell(self, what: str) -> None:
        """Note a step, for whoever has to read why it failed."""
        self.told.append(what)

    def make_sources(self, lab: Lab) -> None:
        """Create the sources in a database, with what they hold at present."""
        lab.run(*AGGREGATES, f"CREATE SCHEMA {_ODD_SCHEMA}")
        for table in self.tables:
            create_source(lab, table, self.bags[table.name])

    def next_query(self, *, like: Shown | None = None) -> Shown:
        """Draw another query; ``like``: with columns of the same kinds."""
        self.drawn += 1
        wanted = None if like is None else like.kinds
        shown, _ = draw_query(f"{self.name}:{self.drawn}", self.tables, self.off, wanted)
        if not self.odd:
            return shown
        names = [(name, _ODD_COLUMNS[n % 6] % n) for n, name in enumerate(shown.names)]
        listed = ", ".join(f"q.{name} AS {odd}" for name, odd in names)
        columns = ((odd, kind) for (_, odd), kind in zip(names, shown.kinds, strict=True))
        return Shown(f"SELECT {listed} FROM ({shown.sql}) AS q", tuple(columns))

    # What has to hold

    def check_held(self, lab: Lab | None = None) -> None:
        """Make sure that nothing has changed."""
        found = self.texts(self.made, lab)
        if found != self.contents:
            raise DifferentError(f"the rows were {self.contents}, and are {found}")

    def check_answer(self) -> None:
        """Make sure that the contents are PostgreSQL's own answer; they are known from here on."""
        try:
            found = find_differences(self.lab, self.made, self.query.sql, self.tables)
        except psycopg.Error as error:
            raise Unanswered(str(error).partition("\n")[0]) from error
        if found:
            raise DifferentError(str(found))
        self.contents = self.texts(self.made)

    def check_count(self) -> None:
        """Refresh who follows the stream table, and make sure that nothing has escaped it."""
        if self.counted:
            self.lab.trickle.refresh_stream_table("counted")
            found = self.lab.rows("TABLE counted")
            if found != [(len(self.contents),)]:
                raise DifferentError(f"{found} rows were counted, of {self.contents}")

    def texts(self, table: str, lab: Lab | None = None) -> list[Text]:
        """Return the rows as they look."""
        return (lab or self.lab).rows(f"SELECT r::text FROM {table} AS r")

    # Steps

    def create(self) -> None:
        """Create the stream table, and at times one that counts its rows."""
        self.query, self.mode = self.next_query(), self.draw.choice(MODES)
        self.counted = self.draw.random() < 0.4
        runtime = self.lab.trickle._runtime
        keeps = self.draw.random() < 0.5
        runtime.settings = replace(runtime.settings, snapshot_keeps_changes=keeps)
        self.tell(f"create {self.made!r} {self.mode}, changes are kept: {keeps}: {self.query.sql}")
        trickle = self.lab.trickle
        try:
            trickle.create_stream_table(self.made, self.query.sql, refresh_mode=self.mode)
        except QueryError as refusal:
            raise Unanswered(str(refusal).partition("\n")[0]) from refusal
        self.check_answer()
        if self.counted:
            count = f"SELECT count(*) AS n FROM {self.made}"
            trickle.create_stream_table("counted", count, refresh_mode="DIFFERENTIAL")
            self.check_count()

    def write(self) -> None:
        """Change the sources, in one transaction."""
        changes = draw_window(self.draw, self.tables, self.bags)
        self.tell(f"write {[(one.table, one.old, one.new) for one in changes]}")
        with self.lab.connection.transaction():
            for change in changes:
                apply_change(self.lab, self.tables, change)
        if self.mode == "IMMEDIATE" and not self.reinitializes:
            self.check_answer()
            self.check_count()
        elif self.mode != "IMMEDIATE":
            self.check_held()

    def refresh(self) -> None:
        """Refresh: by the changes, unless it has to start anew."""
        report = self.lab.trickle.refresh_stream_table(self.made)
        action = report.action.value
        self.tell(f"refresh: {action}, {report.reason}")
        if self.mode == "DIFFERENTIAL" and self.reinitializes is not None:
            wanted = {"REINITIALIZE"} if self.reinitializes else {"DIFFERENTIAL", "NO_DATA"}
            if action not in wanted:
                raise DifferentError(f"the refresh was {action}: {report.reason}")
        self.reinitializes = False
        self.check_answer()
        self.check_count()

    def verify(self) -> None:
        """Let the product itself compare the stream table with its query."""
        verified = self.lab.trickle.verify_stream_table(self.made)
        if not verified.ok:
            raise DifferentError(str(verified))

    def save(self) -> None:
        """Take a snapshot."""
        taken = self.lab.trickle.snapshots.snapshot_stream_table(self.made)
        self.tell(f"snapshot {taken}")
        self.saved[taken.sql] = Saved(self.contents, self.query, self.mode)
        self.check_held()
        if (found := self.texts(taken.sql)) != self.contents:
            raise DifferentError(f"the snapshot of {self.contents} is {found}")

    def restore(self) -> None:
        """Restore any of the snapshots, if it fits."""
        if not self.saved:
            return
        chosen = self.draw.choice(sorted(self.saved))
        saved = self.saved[chosen]
        [listed] = [
            one for one in self.lab.trickle.snapshots.list_snapshots() if one.table.sql == chosen
        ]
        self.tell(f"restore {chosen}, gap: {listed.gap}")
        try:
            self.lab.trickle.snapshots.restore_from_snapshot(self.made, chosen)
        except RestoreRefusedError:
            if self.mode != "IMMEDIATE":
                raise
            self.check_held()
            return
        except SnapshotMismatchError:
            if (saved.query, saved.mode) == (self.query, self.mode):
                raise
            self.check_held()
            return
        if saved.query != self.query or self.mode == "IMMEDIATE":
            raise DifferentError("the snapshot does not fit, and was restored")
        self.contents = saved.rows
        self.check_held()
        self.check_count()
        made = self.lab.trickle.get_stream_table(self.made)
        self.reinitializes = listed.gap is not None or made.needs_reinit

    def drop_saved(self) -> None:
        """Drop any of the snapshots."""
        if self.saved:
            chosen = self.draw.choice(sorted(self.saved))
            self.tell(f"drop {chosen}")
            self.lab.trickle.snapshots.drop_snapshot(chosen)
            del self.saved[chosen]
            self.check_held()

    def alter(self) -> None:
        """Replace the query in place, at times with other columns."""
        query, breaking = self._another_query()
        self.tell(f"alter, may break: {breaking}: {query.sql}")

        def change() -> None:
            self.lab.trickle.alter_stream_table(self.made, query=query.sql, allow_breaking=breaking)

        if self._refused(change, breaking=breaking, busy=self.shadow is not None):
            return
        self.query, self.reinitializes = query, False
        self.check_answer()
        self.check_count()

    def alter_mode(self) -> None:
        """Let it be maintained otherwise, by its writers too."""
        others = [one for one in ("DIFFERENTIAL", "AUTO", "FULL", "IMMEDIATE") if one != self.mode]
        mode = self.draw.choice(others)
        self.tell(f"mode {mode}")

        def change() -> None:
            self.lab.trickle.alter_stream_table(self.made, refresh_mode=mode)

        if self._refused(change, busy=self.shadow is not None):
            return
        self.mode = mode
        if mode == "IMMEDIATE":
            self.reinitializes = False
            self.check_answer()
            self.check_count()
        else:
            self.reinitializes = self.reinitializes or None
            self.check_held()

    def begin_shadow(self) -> None:
        """Let another query follow beside the present one."""
        query, breaking = self._another_query()
        self.tell(f"shadow, may break: {breaking}: {query.sql}")

        def change() -> None:
            self.lab.trickle.alter_stream_table(
                self.made, query=query.sql, shadow_build=True, hold=True, allow_breaking=breaking
            )

        busy = self.shadow is not None or self.mode == "IMMEDIATE"
        if self._refused(change, breaking=breaking, busy=busy):
            return
        self.check_held()
        state = self.lab.trickle.shadows.view_evolution_status(self.made)
        if state is None or state.state != "ready":
            raise DifferentError(f"the shadow build is {state}")
        self.shadow = query

    def follow(self) -> None:
        """Let the shadow catch up."""
        self.tell("follow")
        self.lab.run("UPDATE pgtrickle.pgt_shadow_builds SET next_round_at = now()")
        follow_due(self.lab.trickle._runtime)
        self.check_held()
        self._check_shadow()

    def compare(self) -> None:
        """Compare the stream table with its shadow, which brings both to one moment."""
        found = self.lab.trickle.shadows.compare_shadow(self.made)
        self.tell(f"compare: +{found.rows_added} -{found.rows_removed}")
        self.reinitializes = False
        self.check_answer()
        if not found.same_moment or found.rows != len(self.contents):
            raise DifferentError(f"{found} is compared with {self.contents}")
        self._check_shadow()
        self.check_count()

    def promote(self) -> None:
        """Put the query of the shadow in force."""
        assert self.shadow is not None
        self.tell("promote")
        self.lab.trickle.shadows.promote_shadow(self.made)
        self.query, self.shadow, self.reinitializes = self.shadow, None, False
        self.check_answer()
        self.check_count()

    def cancel(self) -> None:
        """End the shadow build."""
        self.tell("cancel")
        self.lab.trickle.shadows.cancel_shadow(self.made)
        self.shadow = None
        self.check_held()

    def dump(self) -> None:
        """Dump the definitions, restore them into a new database, and go on there."""
        per_table, with_data = self.draw.random() < 0.5, self.draw.random() < 0.5
        self.tell(f"dump, with data: {with_data}")
        lab = take_along(
            self.grounds, self.lab, self.make_sources, per_table=per_table, with_data=with_data
        )
        self._go_on_in(lab)
        self.saved, self.shadow = {}, None
        if with_data and self.mode != "IMMEDIATE":  # whose rows follow from the sources
            self.reinitializes = True
            self.check_held()
        else:
            self.reinitializes = False
            self.check_answer()
        self.check_count()

    def move(self) -> None:
        """Go on in a copy of the whole database, by pg_dump or of its files."""
        by_dump = self.draw.random() < 0.5
        self.tell("pg_dump" if by_dump else "clone")
        self._go_on_in((self.grounds.dumped if by_dump else self.grounds.cloned)(self.lab))
        self.reinitializes = True
        self.check_held()
        for name, saved in self.saved.items():
            if self.texts(name) != saved.rows:
                raise DifferentError(f"{name} is not what it was")

    def _go_on_in(self, lab: Lab) -> None:
        lab.trickle._runtime.settings = self.lab.trickle._runtime.settings
        self.lab = lab

    def _another_query(self) -> tuple[Shown, bool]:
        """Draw a query, and whether columns may change as readers would feel."""
        others = [one.query for one in self.saved.values() if one.query != self.query]
        if others and self.draw.random() < 0.3:  # back to one that a snapshot is of
            return self.draw.choice(others), True
        alike = self.draw.random() < 0.5
        query = self.next_query(like=self.query if alike else None)
        return query, not alike or self.draw.random() < 0.5

    def _refused(
        self, change: Callable[[], None], *, breaking: bool = True, busy: bool = False
    ) -> bool:
        """Do something, or be refused for a good reason; that changes nothing."""
        try:
            change()
        except (QueryError, ColumnsDifferError, ShadowRefusedError) as refusal:
            if isinstance(refusal, ColumnsDifferError) and breaking:
                raise
            if isinstance(refusal, ShadowRefusedError) and not busy:
                raise
            self.tell(f"refused: {str(refusal).partition(chr(10))[0]}")
            self.check_held()
            return True
        except TrickleError:
            self.check_held()
            raise
        return False

    def _check_shadow(self) -> None:
        state = self.lab.trickle.shadows.view_evolution_status(self.made)
        if state is None or state.state not in {"ready", "following"}:
            raise DifferentError(f"the shadow build is {state}")
