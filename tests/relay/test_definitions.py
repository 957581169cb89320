"""Definitions that cannot be used are refused, and secrets stay where they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pgtrickle.errors import PipelineError, SecretMissingError, TrickleError
from pgtrickle.relay.definitions import read_definition, read_file
from pgtrickle.relay.secrets import resolve
from pgtrickle.relay.sinks.entry import make_sink

GOOD: dict[str, Any] = {"stream_table": "revenue", "sink": "stdout"}


@pytest.mark.parametrize(
    "given",
    [
        {"sink": "stdout"},
        {"stream_table": "t"},
        {**GOOD, "sinks": 1},
        {**GOOD, "options": [1]},
        {**GOOD, "envelope": "xml"},
        {**GOOD, "start": "yesterday"},
        {**GOOD, "on_poison": "ignore"},
        {**GOOD, "sink_max_inflight": 0},
        {**GOOD, "max_failures": True},
        {**GOOD, "poll_ms": "fast"},
        {**GOOD, "sink": "carrier pigeon"},
        {**GOOD, "options": {"colour": "red"}},
        {**GOOD, "sink": "file"},
        {**GOOD, "sink": "webhook", "options": {"url": "ftp://there"}},
        {**GOOD, "sink": "webhook", "options": {"url": "http://h", "timeout_seconds": 0}},
        {**GOOD, "sink": "postgres", "options": {"dsn": "host=h password='x", "table": "t"}},
        "revenue",
    ],
)
def test_bad_definitions_are_refused(given: object):
    with pytest.raises(PipelineError) as caught:
        make_sink(read_definition("p", given, from_file=True))

    assert caught.value.hint
    assert "password" not in str(caught.value)


@pytest.mark.parametrize("name", ["", "a b", "a" * 64, "-a", "a'b", "ä"])
def test_bad_names_are_refused(name: str):
    with pytest.raises(PipelineError):
        read_definition(name, GOOD, from_file=True)


@pytest.mark.parametrize("text", ["", "[]", "pipelines: 3", "a: {}\npipelines: {}", "{", "\x00"])
def test_bad_files_are_refused(tmp_path: Path, text: str):
    file = tmp_path / "relay.yml"
    file.write_text(text)

    with pytest.raises(PipelineError):
        read_file(file)


def test_secrets_are_read_where_the_relay_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "token"
    file.write_text("t0ken\n")
    monkeypatch.setenv("SHOP_SECRET", "s3cret")

    options = {"a": "x${ENV:SHOP_SECRET}y", "b": {"c": [f"${{FILE:{file}}}"]}, "d": 3}

    assert resolve(options, trusted=True) == {"a": "xs3crety", "b": {"c": ["t0ken"]}, "d": 3}


def test_the_catalog_names_only_what_is_set_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    inside, outside = tmp_path / "in" / "token", tmp_path / "token"
    inside.parent.mkdir()
    for file in (inside, outside):
        file.write_text("t0ken")
    (inside.parent / "link").symlink_to(outside)
    monkeypatch.setenv("HOME_SECRET", "s3cret")
    monkeypatch.setenv("PGTRICKLE_RELAY_TOKEN", "mine")
    monkeypatch.setenv("PGTRICKLE_RELAY_SECRETS", str(inside.parent))

    good = {"a": "${ENV:PGTRICKLE_RELAY_TOKEN}", "b": f"${{FILE:{inside}}}"}
    assert resolve(good, trusted=False) == {"a": "mine", "b": "t0ken"}
    for bad in (
        "${ENV:HOME_SECRET}",
        f"${{FILE:{outside}}}",
        f"${{FILE:{inside.parent}/../token}}",
        f"${{FILE:{inside.parent}/link}}",
    ):
        with pytest.raises(SecretMissingError):
            resolve({"a": bad}, trusted=False)


def test_missing_secrets_are_named_and_not_guessed(tmp_path: Path):
    for bad in ("${ENV:PGTRICKLE_RELAY_NOWHERE}", f"${{FILE:{tmp_path}/nowhere}}"):
        with pytest.raises(SecretMissingError, match=r"nowhere|NOWHERE"):
            resolve({"a": bad}, trusted=True)


def test_the_catalog_writes_no_file_that_it_was_not_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    given = {**GOOD, "sink": "file", "options": {"path": str(tmp_path / "changes.jsonl")}}
    with pytest.raises(TrickleError, match="may not write"):
        make_sink(read_definition("p", given, from_file=False))
    monkeypatch.setenv("PGTRICKLE_RELAY_FILES", str(tmp_path))
    make_sink(read_definition("p", given, from_file=False))
