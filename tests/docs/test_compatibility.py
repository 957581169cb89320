"""What docs/compatibility.md says of settings, options, errors and alerts is what the code has.

What it says of functions, tables and views: tests/catalog/test_compatibility.py.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path

import pytest

from pgtrickle.errors import TrickleError
from pgtrickle.model.metrics import OF_EACH_DAEMON, OF_THE_LEADER
from pgtrickle.options.option import OptionVerb
from pgtrickle.options.stream_table import OPTIONS
from pgtrickle.settings import SESSION_SETTINGS, Settings, show_value
from tools.compatibility.facts import (
    ARGUMENTS,
    BEHAVIOURS,
    CHANNELS,
    FAILURES,
    FUNCTIONS,
    METRICS,
    RELATIONS,
    SETTINGS,
    Channel,
    Fact,
    Fit,
    Relation,
    Valued,
    split_names,
)
from tools.sql_surface import read_routines

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "compatibility.md"
KINDS: dict[str, tuple[Fact, ...]] = {
    "functions": FUNCTIONS,
    "arguments": ARGUMENTS,
    "settings": SETTINGS,
    "relations": RELATIONS,
    "channels": CHANNELS,
    "metrics": METRICS,
}
DEFAULTS = {
    **{one.name: show_value(one.default) for one in fields(Settings)},
    **{name: default for name, (default, _) in SESSION_SETTINGS.items()},
}
ALERTS = [one for one in CHANNELS if one.section == "Alerts"]


@pytest.mark.parametrize("kind", KINDS)
def test_names_are_there_once_and_differences_are_explained(kind: str) -> None:
    facts = KINDS[kind]

    assert [name for name, number in Counter(one.name for one in facts).items() if number > 1] == []
    assert [one.name for one in facts if not _explained(one)] == []
    assert [one.name for one in facts if one.instead and one.fit is not Fit.OTHER] == []


def _explained(one: Fact) -> bool:
    if isinstance(one, Relation) and (one.without or one.other):
        return True
    return one.fit in {Fit.SAME, Fit.LATER} or bool(one.note or one.instead)


@pytest.mark.parametrize("one", SETTINGS, ids=lambda one: one.name)
def test_setting(one: Valued) -> None:
    ours = one.name if one.fit.is_here else one.instead
    assert (one.name in DEFAULTS) == one.fit.is_here
    assert one.here == (DEFAULTS[ours] if ours else "")
    if one.fit is Fit.SAME:
        assert _is_equal(one.there, one.here)


def _is_equal(there: str, here: str) -> bool:
    return there == here or float(there) == float(here)


@pytest.mark.parametrize("one", ARGUMENTS, ids=lambda one: one.name)
def test_argument_is_taken_by_the_same_verbs(one: Valued) -> None:
    there = {OptionVerb(verb) for verb in split_names(one.verbs)}
    if one.name in {"name", "query"}:
        return  # no options
    if one.fit.is_here:
        assert set(OPTIONS[one.name].verbs) == there
    else:
        assert one.name not in OPTIONS
        assert one.instead in {"", *OPTIONS}


@pytest.mark.parametrize("one", METRICS, ids=lambda one: one.name)
def test_metric(one: Fact) -> None:
    served = {metric.name.removeprefix("pgtrickle_") for metric in OF_EACH_DAEMON + OF_THE_LEADER}

    assert (one.name in served) == one.fit.is_here
    assert one.instead in {"", *served}


def test_codes_of_errors_exist() -> None:
    codes = {code for one in FAILURES for code in split_names(one.codes)}
    codes |= set(re.findall(r"\bST\d{3}\b", PAGE.read_text()))

    assert len(codes) > 30
    assert codes - set(TrickleError.registry) == set()


_SENT = re.compile(r"json_build_object\(\s*('event'.*?)\)::", re.DOTALL)


@cache
def _sources() -> str:
    paths = [path for path in (ROOT / "src").rglob("*") if path.suffix in {".py", ".sql"}]
    return "\n".join(path.read_text() for path in sorted(paths))


def _alerts_sent() -> Iterator[tuple[str, str]]:
    """Yield the keys of each kind of alert, with its event or, if there are several, nothing."""
    for inside in _SENT.findall(_sources()):
        parts = [part.strip() for part in inside.split(",")]
        keys = ", ".join(part.strip("'") for part in parts[::2])
        yield parts[1].strip("'") if parts[1].startswith("'") else "", keys


@pytest.mark.parametrize("one", ALERTS, ids=lambda one: one.name)
def test_alert(one: Channel) -> None:
    sent = list(_alerts_sent())
    assert len(sent) > 5, "alerts are sent in another way by now: adapt the pattern"

    mentioned = re.search(rf"""["']{one.name}["']""", _sources()) is not None
    named = [keys for event, keys in sent if event == one.name]
    if one.fit.is_here:
        assert mentioned
        assert one.keys in (named or {keys for event, keys in sent if not event})
    else:
        assert named == []
        # The word may be a column, a check or a state; it is no event that is sent.
        assert f'"event": "{one.name}"' not in _sources()


def test_functions_named_in_notes_exist() -> None:
    texts = [one.note for facts in KINDS.values() for one in facts]
    texts += [one.note for one in FAILURES] + [one.here for one in BEHAVIOURS]
    named = {name for text in texts for name in re.findall(r"`(?:CALL )?(\w+)\(", text)}

    assert len(named) > 10
    assert named - set(read_routines()) == set()


def test_links_within_the_page_lead_to_headings() -> None:
    text = PAGE.read_text()
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", one.lower()).replace(" ", "-") for one in headings}

    assert set(re.findall(r"\]\(#([^)]+)\)", text)) - anchors == set()
