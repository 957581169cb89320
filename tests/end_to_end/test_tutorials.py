"""Tutorials with Spark as the engine: the first one on this machine, another on a cluster."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from tests.pages.reader import Reader, variables

_COMMAND = "from pgtrickle.cli.main import app; app()"


@pytest.fixture
def reader(empty_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reader:
    """Return a reader whose commands are processes of their own, each with its Spark."""
    command = tmp_path / "pgtrickle"
    command.write_text(f"#!/bin/sh\nexec {shlex.quote(sys.executable)} -c '{_COMMAND}' \"$@\"\n")
    command.chmod(0o755)
    settings = variables(empty_database, PWD=str(tmp_path))
    settings["PATH"] = f"{tmp_path}:{settings['PATH']}"
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    return Reader(empty_database, tmp_path, alone=False)


def test_first_stream_table_is_made_as_the_page_says(reader: Reader) -> None:
    assert reader.follow("docs/tutorials/first-stream-table.md") >= 8


def test_cluster_computes_as_the_page_says(
    spark_master: str, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_MASTER", spark_master)

    assert reader.follow("docs/tutorials/spark-cluster.md") >= 5
