"""The functions of an IMMEDIATE stream table: their texts, and those of its types and tables.

For each source there is one function that follows its changes, and one for the changes of several
sources in one statement.  Trigger functions put the rows of the transition tables into an array and
call them.  A function runs with the rights of the stream table's owner and under fixed settings,
whoever writes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from pgtrickle.capture.functions import EVENTS, Event
from pgtrickle.capture.sources import Member, Source
from pgtrickle.delta.layout import WEIGHT
from pgtrickle.immediate.blueprint import Blueprint, unnested, variable
from pgtrickle.immediate.follow import Following, missing_rows
from pgtrickle.immediate.locking import LockMode
from pgtrickle.immediate.one_group import can_follow_one_group, follow_one_group
from pgtrickle.immediate.undisturbed import is_undisturbed
from pgtrickle.model.text.names import QualifiedName, quote_identifier, quote_literal
from pgtrickle.model.text.search_path import OWN_PATH
from pgtrickle.storage.outbox_changes import TEXT_SETTINGS, write_changes, write_pending

_FORM = 4  # of what is generated: another number makes all functions anew


@dataclass(frozen=True, slots=True)
class Function:
    """A function with its arguments and its text."""

    name: str  # quoted
    arguments: str
    returns: str
    head: str
    text: str
    for_everyone: bool = False

    @property
    def sql(self) -> str:
        """The statement that creates it."""
        return (
            f"CREATE OR REPLACE FUNCTION {self.name}({self.arguments}) RETURNS {self.returns}\n"
            f"LANGUAGE plpgsql {self.head}\nAS {quote_literal(self.text)}"
        )


@dataclass(frozen=True, slots=True)
class Trigger:
    """A statement trigger on a source, or on one of its partitions or heirs."""

    name: str  # quoted
    table: QualifiedName
    owned: bool  # by our own role
    when: str
    function: str
    how: str = "FOR EACH STATEMENT"

    @property
    def sql(self) -> str:
        """The statement that creates it; waits for all writers of the table."""
        return (
            f"CREATE OR REPLACE TRIGGER {self.name} {self.when} {self.how}"
            f" EXECUTE FUNCTION {self.function}()"
        )


@dataclass(frozen=True, slots=True)
class Design:
    """Everything that is created for a stream table."""

    types: tuple[tuple[str, str], ...]  # quoted names and definitions, in order
    tables: tuple[tuple[str, str], ...]  # likewise
    functions: tuple[Function, ...]
    triggers: tuple[Trigger, ...]

    @property
    def generation(self) -> str:
        """A hash of all of it."""
        texts = [str(_FORM), *map(str, self.types), *map(str, self.tables)]
        texts += [one.sql for one in self.functions]
        texts += [one.sql for one in self.triggers]
        return hashlib.sha256("\n".join(texts).encode()).hexdigest()


def design(blueprint: Blueprint) -> Design:
    """Write everything that a stream table needs."""
    following, joint = Following(blueprint), blueprint.locking.joint
    functions = [_follow(blueprint, following, relid) for relid in sorted(blueprint.sources)]
    if joint:
        functions.append(_follow_all(blueprint, following))
    if blueprint.has_outbox:
        functions.append(_follow_outbox(blueprint))
    triggers = []
    for made, trigger in _triggers(blueprint):
        functions.append(made)
        triggers.append(trigger)
    unique = {one.name: one for one in functions}
    sources = {
        blueprint.source_type(relid): _row(source, blueprint.used[relid])
        for relid, source in blueprint.sources.items()
    }
    tables = [
        (blueprint.pending(relid), f"__xid pg_catalog.xid8, {_row(source, blueprint.used[relid])}")
        for relid, source in sorted(blueprint.sources.items())
        if joint
    ]
    types = {**sources, **following.types}
    return Design(tuple(types.items()), tuple(tables), tuple(unique.values()), tuple(triggers))


def _row(source: Source, used: tuple[str, ...]) -> str:
    columns = [f"{quote_identifier(name)} {source.columns[name].type}" for name in used]
    return ", ".join([*columns, f"{WEIGHT} bigint"])


def _argument(relid: int) -> str:
    return variable(f"source_{relid:d}")


def _follow(blueprint: Blueprint, following: Following, relid: int) -> Function:
    arguments = f"{_argument(relid)} {blueprint.source_type(relid)}[]"
    text = f"#variable_conflict use_column\n{following.write([relid])}"
    return Function(blueprint.object(f"follow_{relid:d}"), arguments, "void", "", text)


def _follow_all(blueprint: Blueprint, following: Following) -> Function:
    declared, collected = [], []
    for relid in sorted(blueprint.sources):
        held, table = blueprint.source_type(relid), blueprint.pending(relid)
        names = ", ".join([*map(quote_identifier, blueprint.used[relid]), WEIGHT])
        declared.append(f"    {_argument(relid)} {held}[];")
        own = "WHERE __xid = pg_catalog.pg_current_xact_id()"
        rows = f"ARRAY(SELECT ROW({names})::{held} FROM {table} {own})"
        collected += [f"    {_argument(relid)} := {rows};", f"    DELETE FROM {table} {own};"]
    head = ["#variable_conflict use_column", "DECLARE", *declared, "BEGIN", *collected]
    text = "\n".join([*head, following.write(list(blueprint.sources)), "END"])
    return Function(blueprint.object("follow_all"), "", "void", "", text)


def _follow_outbox(blueprint: Blueprint) -> Function:
    """Append the changes of a statement, under settings that give values one text."""
    rows = variable("result")
    changes = write_changes(
        blueprint.columns, blueprint.key, f"pg_catalog.unnest({rows})", f"r.{WEIGHT}"
    )
    text = f"#variable_conflict use_column\nBEGIN\n{write_pending(blueprint.id, changes)};\nEND"
    head = " ".join(f"SET {name} = {value}" for name, value in TEXT_SETTINGS.items())
    argument = f"{rows} {blueprint.object('result')}[]"
    return Function(blueprint.object("follow_outbox"), argument, "void", head, text)


def _head(blueprint: Blueprint) -> str:
    settings = {
        "search_path": OWN_PATH,
        "row_security": "off",
        # How the texts below are read, and how names are written.
        "standard_conforming_strings": "on",
        "quote_all_identifiers": "off",
        "jit": "off",
        **_planning(blueprint),
        "pg_trickle.refreshing": quote_literal(str(blueprint.relid)),
        **{name: quote_literal(value) for name, value in blueprint.settings.items()},
    }
    listed = " ".join(f"SET {name} = {value}" for name, value in settings.items())
    return f"SECURITY DEFINER {listed}"


def _planning(blueprint: Blueprint) -> dict[str, str]:
    """Let plans be made once for each session where every read has an index of ours.

    Without a turn for all, only state and contents are read, a few rows of each by their hash.  A
    plan for any number of changes is then right.  Left alone, the planner reads tables that look
    small from end to end, with all rows that have gone since.
    """
    if blueprint.locking.mode is LockMode.EXCLUSIVE:
        return {"plan_cache_mode": "'auto'", "enable_seqscan": "on"}
    return {"plan_cache_mode": "'force_generic_plan'", "enable_seqscan": "off"}


def _triggers(blueprint: Blueprint) -> Iterator[tuple[Function, Trigger]]:
    for relid, source in sorted(blueprint.sources.items()):
        if not source.members[0].stores_rows:
            yield _never_fired(blueprint, relid, source.members[0])
        for member in source.members:
            for event in EVENTS:
                writer = _Writer(blueprint, relid, source, member, event)
                yield from writer.triggers()


def _never_fired(blueprint: Blueprint, relid: int, root: Member) -> tuple[Function, Trigger]:
    """Make NEW TABLE right for MERGE (see ``capture/unknown_partitions.py``).

    Whoever creates a partition needs the right to execute the function.
    """
    name = blueprint.object("before_rows")
    text = "BEGIN RETURN NEW; END"
    title = f"pgtrickle_immediate_{blueprint.id:012d}_{relid:d}_routed"
    when, how = f"BEFORE INSERT ON {root.name.sql}", "FOR EACH ROW WHEN (false)"
    trigger = Trigger(quote_identifier(title), root.name, root.owned, when, name, how)
    return Function(name, "", "trigger", "", text, for_everyone=True), trigger


def _count(blueprint: Blueprint) -> str:
    """Count a statement that is followed."""
    statements = quote_literal(blueprint.object("statements"))
    return f"__pgt_number := pg_catalog.nextval({statements});"


@dataclass(frozen=True, slots=True)
class _Writer:
    """Writes the trigger functions for one event of one table."""

    blueprint: Blueprint
    relid: int
    source: Source
    member: Member
    event: Event

    def triggers(self) -> Iterator[tuple[Function, Trigger]]:
        locking = self.blueprint.locking
        if not self.event.images:
            yield self._made("before", self._before_truncate())
            if locking.joint:
                yield self._made("after", self._after_truncate())
            return
        if locking.mode is LockMode.EXCLUSIVE:
            yield self._made("before", self._before())
        yield self._made("after", self._after())

    def _made(self, time: str, text: str) -> tuple[Function, Trigger]:
        blueprint, event = self.blueprint, self.event.name
        own = "" if self.member.relid == self.relid else f"_{self.member.relid:d}"
        name = blueprint.object(f"{time}_{self.relid:d}{own}_{event}")
        if time == "before" and self.event.images:
            name = blueprint.object("before")  # the same for all
        tables = "" if time == "before" else self.event.transition_tables.as_string()
        when = f"{time.upper()} {event.upper()} ON {self.member.name.sql} {tables}"
        # Padded, so that all take their turns in the same order.
        title = f"pgtrickle_immediate_{blueprint.id:012d}_{self.relid:d}_{time}_{event}"
        trigger = Trigger(quote_identifier(title), self.member.name, self.member.owned, when, name)
        return Function(name, "", "trigger", _head(blueprint), text), trigger

    @property
    def _number(self) -> int:
        return self.blueprint.id

    def _before(self) -> str:
        if self.blueprint.locking.joint:
            return f"BEGIN PERFORM pgtrickle.begin_write({self._number}); RETURN NULL; END"
        return f"BEGIN PERFORM pgtrickle.take_turns({self._number}, '{{0}}'); RETURN NULL; END"

    def _after(self) -> str:
        images = [(f"__{image.lower()}", weight) for image, weight in self.event.images]
        joint = self.blueprint.locking.joint
        number, last = self._number, "__pgt_last"
        ended = (
            f"IF NOT pgtrickle.is_immediate_ready({number}, 0) THEN RETURN NULL; END IF;\n"
            f"    {last} := pgtrickle.end_write({number});"
        )
        several = (
            f"IF {last} <> 1 THEN\n"
            f"        INSERT INTO {self.blueprint.pending(self.relid)}\n"
            "        SELECT pg_catalog.pg_current_xact_id(), one.*"
            f" FROM {unnested('rows')} AS one;\n"
            f"        IF {last} > 1 THEN PERFORM {self.blueprint.object('follow_all')}(); END IF;\n"
            "        RETURN NULL;\n"
            "    END IF;"
        )
        return self._text(images, ended if joint else "", several if joint else "")

    def _text(self, images: list[tuple[str, int]], ended: str, instead: str) -> str:
        """Write a function that collects the rows of some relations and follows them."""
        blueprint, number = self.blueprint, self._number
        held = blueprint.source_type(self.relid)
        entered = ended or self._locked()
        names = [quote_identifier(name) for name in blueprint.used[self.relid]]
        rows = " UNION ALL ".join(
            f"SELECT ROW({', '.join([*names, f'{weight}'])})::{held} FROM {relation}"
            for relation, weight in images
        )
        if len(images) > 1:
            rows = f"SELECT * FROM ({rows}) AS changed"
        declared, direct = "", "NULL;"
        if self.event.images and can_follow_one_group(blueprint):
            declared, direct = self._direct(images)
        return f"""#variable_conflict use_column
DECLARE
    {variable("rows")} {held}[];
    __pgt_last integer := 1;
    __pgt_number bigint;{declared}
BEGIN
    {entered}
    IF {is_undisturbed(blueprint)} THEN
        {direct}
    ELSIF NOT pgtrickle.may_follow({number}) THEN
        RETURN NULL;
    END IF;
    {variable("rows")} := ARRAY({rows} LIMIT {blueprint.max_rows + 1});
    IF pg_catalog.cardinality({variable("rows")}) > {blueprint.max_rows} THEN
        PERFORM pgtrickle.refuse_or_defer({number});
        RETURN NULL;
    END IF;
    {_count(blueprint)}
    {instead}
    IF pg_catalog.cardinality({variable("rows")}) > 0 THEN
        PERFORM {blueprint.object(f"follow_{self.relid:d}")}({variable("rows")});
    END IF;
    RETURN NULL;
END"""

    def _direct(self, images: list[tuple[str, int]]) -> tuple[str, str]:
        """Follow a statement that changes one group, which is there and stays."""
        blueprint = self.blueprint
        names = [quote_identifier(name) for name in blueprint.used[self.relid]]
        rows = " UNION ALL ".join(
            f"SELECT {', '.join(names)}, {weight} AS {WEIGHT} FROM {relation}"
            for relation, weight in images
        )
        one = follow_one_group(blueprint, rows)
        text = f"""IF pgtrickle.changes_in_place({blueprint.relid}) THEN
        {one.find};
        IF FOUND AND {one.stays} THEN
            {_count(blueprint)}
            {one.change}
            IF __pgt_number <> 1 THEN
                {missing_rows(blueprint)}
            END IF;
            RETURN NULL;
        END IF;
        END IF;"""
        return f"\n    {one.declaration};", text

    def _locked(self) -> str:
        """Lock the contents: whoever says that they are not ready waits for that.

        Who has the turn of all needs no lock.  A table that was renamed is found by its number.
        """
        blueprint, number = self.blueprint, self._number
        if blueprint.locking.mode is LockMode.EXCLUSIVE:
            return ""
        name, relid = blueprint.name.sql, blueprint.relid
        return (
            f"IF pg_catalog.to_regclass({quote_literal(name)}) = {relid}::pg_catalog.oid THEN\n"
            f"        LOCK TABLE ONLY {name} IN ROW EXCLUSIVE MODE;\n"
            f"    ELSIF NOT pgtrickle.is_immediate_ready({number}, {relid}) THEN\n"
            "        RETURN NULL;\n"
            "    END IF;"
        )

    def _before_truncate(self) -> str:
        """All rows go.  A table of a tree fires for itself: only rows of its own count."""
        blueprint, number = self.blueprint, self._number
        locking = blueprint.locking
        images = [(f"ONLY {self.member.name.sql}", -1)]
        if locking.joint:
            stash = (
                f"INSERT INTO {blueprint.pending(self.relid)}\n"
                "    SELECT pg_catalog.pg_current_xact_id(), one.*"
                f" FROM {unnested('rows')} AS one;\n    RETURN NULL;"
            )
            return self._text(images, "", stash).replace(
                "BEGIN\n", f"BEGIN\n    PERFORM pgtrickle.begin_write({number});\n", 1
            )
        if locking.mode is LockMode.EXCLUSIVE:
            taken = f"PERFORM pgtrickle.take_turns({number}, '{{0}}');"
        else:
            # The snapshot may not show all rows that go, and no lock tells whether it does.
            taken = (
                "IF pg_catalog.current_setting('transaction_isolation') <> 'read committed' THEN\n"
                f"        PERFORM pgtrickle.defer_immediate({number}, 'a source was truncated under"
                " a snapshot');\n        RETURN NULL;\n    END IF;"
            )
        return self._text(images, "", "").replace("BEGIN\n", f"BEGIN\n    {taken}\n", 1)

    def _after_truncate(self) -> str:
        number = self._number
        return f"""BEGIN
    IF pgtrickle.is_immediate_ready({number}, 0) AND pgtrickle.end_write({number}) > 0 THEN
        PERFORM {self.blueprint.object("follow_all")}();
    END IF;
    RETURN NULL;
END"""
