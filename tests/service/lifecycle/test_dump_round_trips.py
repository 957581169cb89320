"""Dumps of random definitions: dropped and restored they are the same, byte for byte."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from pgtrickle.model.text.names import quote_identifier
from pgtrickle.options.option import OptionVerb
from tests.labs.lab import Lab
from tests.options.examples import words
from tests.queries.test_types import TYPES, load
from tests.seeds import NEW_CASES
from tests.service.lifecycle.dumping import contents, drop_everything, dump_text, exports

_ODD = [
    "'",
    '"',
    "\\",
    ";",
    "\n",
    "\t",
    "\r",
    "--",
    "/*",
    "$$",
    "$do$",
    "%s",
    "%I",
    "{0}",
    ":x",
    "${ENV:HOME}",
]
_ODD += [
    "Ä",
    "☃",
    "\u202e",
    "\u00a0",
    "\u0085",
    "\u2028",
    "\ufeff",
    "select",
    "null",
    "~",
    "- ",
    "a: b",
    "#",
    "'' ",
]
NAMES = (
    st.lists(
        st.sampled_from(_ODD) | st.characters(exclude_categories=["Cs"], exclude_characters="\0"),
        min_size=1, max_size=20)
    .map("".join)
    .map(lambda text: text.encode()[:63].decode(errors="ignore"))
    .filter(lambda name: name and not name.startswith("pg"))
)  # fmt: skip
TEXTS = st.lists(st.sampled_from(_ODD) | st.text(max_size=5), min_size=1, max_size=5).map(
    lambda parts: "".join(parts).replace("\0", "").encode("utf-8", "ignore").decode()
).filter(bool)  # fmt: skip
# Options of their own that any of these stream tables can have.
_LEFT_OUT = ("sink", "ducklake_sink_path", "ducklake_table", "ducklake_partition_by")
_WORDS = {
    **words(OptionVerb.CREATE, Path("/"), leave=(*_LEFT_OUT, "initialize")),
    **words(OptionVerb.ALTER, Path("/"), leave=_LEFT_OUT),
}


@st.composite
def worlds(draw: st.DrawFn) -> dict[str, Any]:
    """Draw names, a type, options, and what else is said of a stream table."""
    names = draw(st.lists(NAMES, min_size=6, max_size=6, unique=True))
    return {
        "schema": names[0],
        "tables": names[1:3],
        "column": names[3],
        "index": draw(st.sampled_from([None, names[4]])),
        "constraint": draw(st.sampled_from([None, names[5]])),
        "type": draw(st.sampled_from(sorted(TYPES))),
        "options": draw(st.sets(st.sampled_from(sorted(_WORDS)))),
        "comment": draw(st.none() | TEXTS),
        "column_comment": draw(st.none() | TEXTS),
        "policy": draw(st.none() | NAMES),
        "grant": draw(st.booleans()),
        "group": draw(st.none() | NAMES),
        "data": draw(st.booleans()),
    }


def literal(text: str) -> str:
    return "E'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def make(lab: Lab, world: Mapping[str, Any]) -> None:
    """Make a source with every value of a type, and a stream table above another one."""
    schema, column = quote_identifier(world["schema"]), quote_identifier(world["column"])
    low, high = (f"{schema}.{quote_identifier(one)}" for one in world["tables"])
    load(lab, TYPES[world["type"]])
    lab.run(f"CREATE SCHEMA {schema}")
    path = f"{schema}, public"
    lab.run(f"SET search_path = {path}")
    create = lab.trickle.create_stream_table
    create(low, f"SELECT id, k, v AS {column} FROM src")
    create(high, f"SELECT {column}, k FROM {low}", refresh_mode="AUTO")
    options = {name: _WORDS[name] for name in world["options"]}
    if "fuse_sensitivity" in options or "fuse_ceiling" in options:
        options["fuse"] = "auto"
    lab.trickle.alter_stream_table(high, **options)
    lab.run("RESET search_path")
    if world["comment"]:
        lab.run(f"COMMENT ON TABLE {low} IS {literal(world['comment'])}")
    if world["column_comment"]:
        lab.run(f"COMMENT ON COLUMN {high}.{column} IS {literal(world['column_comment'])}")
    if world["index"]:
        lab.run(f"CREATE INDEX {quote_identifier(world['index'])} ON {low} (id) WHERE id > 0")
    if world["constraint"]:
        named = quote_identifier(world["constraint"])
        lab.run(f"ALTER TABLE {low} ADD CONSTRAINT {named} UNIQUE (id)")
    if world["policy"]:
        named = quote_identifier(world["policy"])
        lab.run(f"CREATE POLICY {named} ON {low} USING ({column} IS NOT NULL)")
    if world["grant"]:
        lab.run(f"GRANT SELECT ({column}) ON {low} TO PUBLIC")
    if world["group"]:
        lab.trickle.scheduler.create_refresh_group(world["group"], [low, high], "read_committed")


_EXAMPLES = 40 if NEW_CASES else 8


@settings(
    max_examples=_EXAMPLES,
    phases=[Phase.explicit, Phase.generate],  # each attempt to shrink one takes a second
    report_multiple_bugs=False,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(world=worlds())
def test_any_definition_is_the_same_when_restored(postgres_lab: Lab, world: dict[str, Any]):
    lab = postgres_lab
    lab.run("DELETE FROM pgtrickle.pgt_refresh_groups")
    lab.reset()
    make(lab, world)
    before, scripts, rows = dump_text(lab), exports(lab), contents(lab)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "dump"
        lab.trickle.definitions.dump_definitions(
            path, format="yaml", with_data=world["data"], per_table=True
        )
        drop_everything(lab)
        lab.trickle.definitions.restore_definitions(path)

    assert dump_text(lab) == before
    assert exports(lab) == scripts
    assert contents(lab) == rows
    for (name,) in lab.rows("SELECT name FROM pgtrickle.pgt_status() WHERE status <> 'SUSPENDED'"):
        assert lab.trickle.verify_stream_table(name).ok
