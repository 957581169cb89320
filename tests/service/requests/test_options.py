"""SQL takes exactly the options that are defined, and a definition is carried whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pgtrickle.catalog.option_routines import STORED
from pgtrickle.options.changes import Changes, read_options
from pgtrickle.options.option import OptionVerb
from pgtrickle.options.stream_table import OPTIONS, StreamTableOptions, options_of
from tests.labs.lab import Lab
from tests.options.examples import OF_QUERY, words

CREATE, ALTER = OptionVerb.CREATE, OptionVerb.ALTER
PROCEDURES = {
    "create_stream_table": CREATE,
    "create_stream_table_if_not_exists": CREATE,
    "create_or_replace_stream_table": CREATE,
    "alter_stream_table": ALTER,
}
KEPT = [one for one in OPTIONS.values() if one.kept]
QUERY = "SELECT k, count(*) AS n FROM t GROUP BY k"
_ARGUMENTS = """
    SELECT json_agg(json_build_array(
               a.name, a.mode, format_type(a.type, NULL),
               pg_get_function_arg_default(p.oid, a.number::int)) ORDER BY a.number)
      FROM pg_proc AS p, unnest(p.proargnames, p.proargmodes, p.proallargtypes)
           WITH ORDINALITY AS a (name, mode, type, number)
     WHERE p.pronamespace = 'pgtrickle'::regnamespace AND p.proname = '{}'
"""
_TYPES = {"text": "text", "bool": "boolean", "int8": "bigint", "float8": "double precision"}


def default_of(word: Any) -> str:
    if isinstance(word, bool):
        return str(word).lower()
    return "NULL::" if word is None else f"'{word}'::text"


@pytest.mark.parametrize(("name", "verb"), PROCEDURES.items())
def test_procedure_takes_the_options_in_order(lab: Lab, name: str, verb: OptionVerb):
    found = lab.value(_ARGUMENTS.format(name))
    options = options_of(verb)

    assert [one[0] for one in found] == ["name", "query", *(one.name for one in options), "result"]
    for (_, mode, kind, default), option in zip(found[2:-1], options, strict=True):
        wanted = default_of(option.word if verb is CREATE else None)
        assert (mode, kind) == ("i", _TYPES[option.sql_type(verb)])
        assert default == wanted or default.startswith(wanted)


@pytest.mark.parametrize(("name", "verb"), PROCEDURES.items())
def test_procedure_hands_every_option_on(lab: Lab, name: str, verb: OptionVerb):
    body = lab.value(
        "SELECT prosrc FROM pg_proc WHERE pronamespace = 'pgtrickle'::regnamespace"
        f" AND proname = '{name}'"
    )

    for option in ("name", "query", *(one.name for one in options_of(verb))):
        assert f"'{option}', {name}.{option}" in body


def test_every_option_that_is_kept_has_its_place():
    assert set(STORED) == {one.name for one in KEPT}


@pytest.fixture
def t(served: Lab) -> Lab:
    served.run("CREATE TABLE t (id int PRIMARY KEY, k int)", "INSERT INTO t VALUES (1, 1), (2, 2)")
    return served


def spec_of(lab: Lab, name: str) -> dict[str, Any]:
    return dict(lab.value(f"SELECT pgtrickle.stream_table_spec('{name}')"))


def check_spec(spec: dict[str, Any], given: dict[str, Any]) -> None:
    """Compare what is on record with what was said."""
    found, wanted = read_options(spec), read_options(given)
    for option in KEPT:
        if option.name in given:
            assert found.value(option.name) == wanted.value(option.name), option.name


def named(given: dict[str, Any]) -> str:
    """Write options as named arguments of SQL."""
    return ", ".join(
        f"{name} => {json.dumps(word) if isinstance(word, bool) else repr(word)}"
        for name, word in given.items()
    )


def test_definition_with_every_option_is_exported_dropped_and_made_again(t: Lab, tmp_path: Path):
    given = words(CREATE, tmp_path) | words(ALTER, tmp_path, leave=OF_QUERY)
    named_words = named(words(CREATE, tmp_path))
    t.run(f"CALL pgtrickle.create_stream_table('counts', '{QUERY}', {named_words})")
    already = (*(one.name for one in options_of(CREATE)), *OF_QUERY)
    t.trickle.alter_stream_table("counts", **words(ALTER, tmp_path, leave=already))
    before = spec_of(t, "counts")
    script = t.trickle.export_definition("counts")

    check_spec(before, given)
    kept = {one.name for one in KEPT}
    assert kept <= Changes.to(read_options(before)).given
    assert set(before) == kept | {"name", "query", "search_path", "owner"}

    t.trickle.drop_stream_table("counts")
    for statement in script.split(";\n"):
        if statement:
            t.run(statement)
    t.run("RESET search_path")

    assert spec_of(t, "counts") == before
    assert t.trickle.export_definition("counts") == script


def test_exported_defaults_bring_a_stream_table_back(t: Lab, tmp_path: Path):
    t.trickle.create_stream_table("counts", QUERY)
    script = t.trickle.export_definition("counts")
    t.trickle.alter_stream_table(
        "counts",
        schedule="9m",
        tier="cold",
        max_delta_fraction=0.5,
        sink="ducklake",
        ducklake_sink_path=str(tmp_path),
    )
    for statement in script.split(";\n"):
        if statement:
            t.run(statement)
    t.run("RESET search_path")

    assert read_options(spec_of(t, "counts")) == StreamTableOptions()


def test_create_or_replace_gives_an_existing_one_every_option(t: Lab, tmp_path: Path):
    t.trickle.create_stream_table("counts", QUERY)
    given = words(CREATE, tmp_path)
    call = f"CALL pgtrickle.create_or_replace_stream_table('counts', '{QUERY}', {named(given)})"

    assert t.value(call)["status"] == "altered"
    check_spec(spec_of(t, "counts"), given)
    assert t.value(call)["status"] == "unchanged"


@pytest.mark.parametrize(
    "verb",
    [
        "create_stream_table",
        "create_stream_table_if_not_exists",
        "create_or_replace_stream_table",
    ],
)
def test_new_one_has_every_option_from_sql_and_from_python(t: Lab, tmp_path: Path, verb: str):
    given = words(CREATE, tmp_path)
    t.run(f"CALL pgtrickle.{verb}('counts', '{QUERY}', {named(given)})")
    check_spec(spec_of(t, "counts"), given)
    t.trickle.drop_stream_table("counts")

    getattr(t.trickle, verb)("counts", QUERY, **given)
    check_spec(spec_of(t, "counts"), given)


def test_bulk_creation_takes_every_option(t: Lab, tmp_path: Path):
    given = words(CREATE, tmp_path)
    definitions = json.dumps([{"name": "counts", "query": QUERY, **given}])
    t.run(f"CALL pgtrickle.bulk_create('{definitions}')")
    check_spec(spec_of(t, "counts"), given)
    t.trickle.drop_stream_table("counts")

    t.trickle.bulk_create([{"name": "counts", "query": QUERY, **given}])  # type: ignore[typeddict-item]
    check_spec(spec_of(t, "counts"), given)


def test_alter_takes_every_option(t: Lab, tmp_path: Path):
    given = words(ALTER, tmp_path, leave=OF_QUERY)
    as_text = named(given | {"max_delta_fraction": str(given["max_delta_fraction"])})

    def by_python() -> None:
        t.trickle.alter_stream_table("counts", **given)

    def by_sql() -> None:
        t.run(f"CALL pgtrickle.alter_stream_table('counts', {as_text})")

    for alter in (by_python, by_sql):
        t.trickle.create_stream_table("counts", QUERY)
        alter()
        check_spec(spec_of(t, "counts"), given)
        assert t.trickle.get_stream_table("counts").status.value == given["status"]
        t.trickle.drop_stream_table("counts")
