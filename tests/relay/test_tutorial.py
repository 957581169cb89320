"""The tutorial on Kafka, block by block, with what it says to run."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import psycopg
from typer.testing import CliRunner

from pgtrickle.cli.main import app
from tests.labs.lab import Lab
from tests.relay.servers import free_port, kafka_server
from tests.relay.test_kafka import make_topic

_PAGE = Path(__file__).parents[2] / "docs" / "tutorials" / "kafka-exactly-once.md"
_HELD = [("north", "14.50", 2), ("west", "3.00", 1)]  # as the table on the page


def test_the_page_does_what_it_says(postgres_lab: Lab, tmp_path: Path, empty_database: str):
    lab = postgres_lab
    with kafka_server(tmp_path, free_port(), free_port()) as broker:
        make_topic(broker, "revenue", partitions=1)  # which the page does by Kafka's own script
        for kind, text in re.findall(r"```(\w+)\n(.*?)```", _PAGE.read_text(), re.DOTALL):
            placed = text.replace("localhost:9092", broker)
            match kind:
                case "sql":
                    lab.run(*filter(None, map(str.strip, placed.split(";"))))
                case "yaml":
                    (tmp_path / "relay.yml").write_text(placed)
                case "python":
                    (tmp_path / "receiver.py").write_text(placed)
                case "sh":
                    for line in placed.splitlines():
                        _run(line, lab.trickle.dsn, empty_database, tmp_path)
                case _:  # a script of Kafka's own
                    assert kind == "text"
        held = lab.rows("SELECT region, total::text, n FROM revenue ORDER BY region")
        with psycopg.connect(empty_database) as copy:
            copied = copy.execute(
                "SELECT region, total::text, n FROM revenue_copy ORDER BY region"
            ).fetchall()
    assert held == copied == _HELD
    for region, total, n in _HELD:
        assert f"| {region} | {total} | {n} |" in _PAGE.read_text()


def _run(line: str, dsn: str, copy: str, folder: Path) -> None:
    program, *arguments = shlex.split(line)
    if program == "python":
        command = [sys.executable, *arguments]
        subprocess.run(command, cwd=folder, env=os.environ | {"COPY_DSN": copy}, check=True)
        return
    placed = [str(folder / one) if one == "relay.yml" else one for one in arguments]
    environment = {"PGTRICKLE_DSN": dsn, "PGTRICKLE_ENGINE": "postgres"}
    done = CliRunner().invoke(app, placed, env=environment)
    assert done.exit_code == 0, (line, done.output)
