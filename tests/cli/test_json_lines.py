"""With ``--log-format json`` whatever is written is a JSON document on each line."""

from __future__ import annotations

import io
import json
import logging
import sys
import threading
import warnings
from typing import Any

import pytest
from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.cli.daemon.json_lines import JsonLines
from pgtrickle.cli.daemon.log_lines import LogFormat, logging_lines
from pgtrickle.cli.output import stderr, stdout
from tests.cli.conftest import CommandLine


class Streams:
    """What came to both standard streams while everything was logged as JSON."""

    def __init__(self, captured: pytest.CaptureFixture[str]) -> None:
        self._captured = captured
        self._text = ""

    @property
    def text(self) -> str:
        self._text += "".join(self._captured.readouterr())
        return self._text

    @property
    def documents(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.text.splitlines()]

    @property
    def messages(self) -> list[str]:
        return [one["message"] for one in self.documents]


@pytest.fixture
def streams(capsys: pytest.CaptureFixture[str]) -> Streams:
    return Streams(capsys)


def test_what_is_printed_becomes_a_document(streams: Streams) -> None:
    with logging_lines(LogFormat.JSON):
        print("a line")
        print("half", end="")
        print(" and half", file=sys.stdout)
        stdout().print("[by rich]", markup=False)
        stderr().print("an error\nof two lines", markup=False)
        print(file=sys.stderr)

    assert streams.messages == ["a line", "half and half", "[by rich]", "an error\nof two lines"]
    assert all({"time", "level", "logger"} <= set(one) for one in streams.documents)


def test_documents_pass_as_they_are(streams: Streams) -> None:
    with logging_lines(LogFormat.JSON):
        print(json.dumps({"stream_table": "public.a"}))
        print("{not one}")

    assert streams.documents[0] == {"stream_table": "public.a"}
    assert streams.documents[1]["message"] == "{not one}"


def test_libraries_warn_in_documents_with_their_name(streams: Streams) -> None:
    with warnings.catch_warnings(), logging_lines(LogFormat.JSON):
        warnings.simplefilter("always")
        logging.getLogger("py4j.java_gateway").warning("the JVM is gone")
        logging.getLogger("py4j.java_gateway").info("of no interest")
        warnings.warn("soon gone", DeprecationWarning, stacklevel=1)
        logging.getLogger("pgtrickle.anything").info("done", extra={"seconds": 1})

    assert [one["logger"] for one in streams.documents] == [
        "py4j.java_gateway",
        "py.warnings",
        "pgtrickle.anything",
    ]


def test_traceback_is_one_document(streams: Streams) -> None:
    def fail() -> None:
        raise ValueError("nobody foresaw this")

    with logging_lines(LogFormat.JSON):
        thread = threading.Thread(target=fail)
        thread.start()
        thread.join()
        try:
            fail()
        except ValueError:
            logging.getLogger("pgtrickle").exception("it failed")

    assert [one["message"] for one in streams.documents] == ["an error ended a thread", "it failed"]
    assert all("nobody foresaw this" in one["traceback"] for one in streams.documents)


def test_password_is_hidden_in_what_others_print(streams: Streams) -> None:
    with logging_lines(LogFormat.JSON):
        print("could not connect to postgresql://ann:secret@db/shop")

    assert "secret" not in streams.text


def test_lines_of_several_threads_are_not_mixed() -> None:
    stream = io.StringIO()
    lines = JsonLines(stream, "output", "info")

    def write(letter: str) -> None:
        for _ in range(200):
            lines.write(letter * 10)
            lines.write(letter * 10 + "\n")

    threads = [threading.Thread(target=write, args=(letter,)) for letter in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    found = {json.loads(line)["message"] for line in stream.getvalue().splitlines()}
    assert found == {letter * 20 for letter in "abc"}


def test_every_line_of_a_run_is_a_document(cli: CommandLine, user: Connection[TupleRow]) -> None:
    user.execute("CREATE TABLE goods (name text, price int)")
    cli("create", "good", "--query", "SELECT name FROM goods")
    cli("create", "bad", "--query", "SELECT 1 / price AS one FROM goods", "--refresh-mode", "full")
    user.execute("INSERT INTO goods VALUES ('tea', 0)")
    user.execute(
        "UPDATE pgtrickle.pgt_stream_tables SET last_refresh_at = now() - interval '1 day'"
    )

    answer = cli("run", "--once", "--log-format", "json")

    assert answer.exit_code == 1
    out = [json.loads(line) for line in answer.stdout.splitlines()]
    assert {one["stream_table"] for one in out} == {"public.good", "public.bad"}
    assert [one["error"]["code"] for one in out if "error" in one] == ["ST407"]
    err = [json.loads(line) for line in answer.stderr.splitlines()]
    assert "refreshed" in [one["message"] for one in err]
