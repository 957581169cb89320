"""Commands beside a daemon: it does the work, and nothing that is printed differs."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle import Trickle, connect
from tests.cli.conftest import Answer, CommandLine
from tests.fakes.engine import DuckDbEngine
from tests.fixtures.daemons import await_
from tests.fixtures.engines import Borrowed

CHEAP = "SELECT id, price FROM items WHERE price < 10"
Pair = tuple[tuple[str, ...], Answer, Answer]  # the command, without and with a daemon
_SOURCE = Path(__file__).parents[2] / "src"
_MEASURED = {"duration_ms", "timings_ms", "refresh_id", "predicted_ms", "alternative_ms", "bytes"}
_MOMENTS = {"frontier", "data_timestamp", "last_refresh_at"}


@pytest.fixture
def engine(duckdb_engine: DuckDbEngine) -> Borrowed:
    """Return the engine of the daemon, whose work a test may interrupt."""
    return Borrowed(duckdb_engine)


@pytest.fixture
def daemon(database: str, engine: Borrowed) -> Iterator[Trickle]:
    """Let requests be served, as a daemon does."""
    with connect(database, engine=engine) as trickle, trickle.daemon.serving_requests():
        yield trickle


def asked(user: Connection[TupleRow]) -> list[tuple[str, str]]:
    """Return what was asked for, and what became of it."""
    return user.execute(
        "SELECT verb, status FROM pgtrickle.pgt_requests ORDER BY request_id"
    ).fetchall()


def plain(document: Any) -> Any:
    """Return a document without what is measured, and another each time."""
    if isinstance(document, dict):
        return {
            key: type(value).__name__ if key in _MEASURED | _MOMENTS else plain(value)
            for key, value in document.items()
        }
    return [plain(one) for one in document] if isinstance(document, list) else document


def handed_over(answer: Answer) -> bool:
    return f"handed to the daemon on {os.uname().nodename}, pid {os.getpid()}\n" in answer.stderr


COMMANDS: tuple[tuple[str, ...], ...] = (
    ("create", "dear", "--query", "SELECT id FROM items WHERE price > 10", "--schedule", "5m"),
    ("create", "dear", "--query", "SELECT id FROM items WHERE price > 20", "--or-replace"),
    ("create", "dear", "--query", "SELECT 1"),  # is there
    ("create", "wrong", "--query", "SELECT nothing FROM items"),
    ("create", "0", "--query", "SELECT 1"),
    ("alter", "dear", "--schedule", "1m", "--max-delta-fraction", "0.5"),
    ("alter", "dear", "--max-delta-fraction", "2"),
    ("alter", "dear", "--schedule", "often"),
    ("refresh", "dear"),
    ("refresh", "dear", "--full"),
    ("refresh", "nothing"),
    ("refresh", "--all"),
    ("verify", "dear"),
    ("create", "reader", "--query", "SELECT count(*) AS n FROM dear"),
    ("drop", "dear"),  # is read
    ("rename", "dear", "costly"),
    ("repair", "costly"),
    ("drop", "costly", "--cascade"),
)


LOCAL = {("create", "0"), ("refresh", "nothing")}  # a name that is wrong is found before
SOME = [COMMANDS[number] for number in (0, 3, 5, 8, 12, 15, 16, 17)]


def both(cli: CommandLine, commands: Sequence[tuple[str, ...]], *options: str) -> Iterator[Pair]:
    """Type commands twice, first without the daemon's help."""
    here = [cli(*command, *options, "--local") for command in commands]
    there = [cli(*command, *options) for command in commands]
    return zip(commands, here, there, strict=True)


def test_documents_are_the_same_beside_a_daemon(
    cli: CommandLine, user: Connection[TupleRow], daemon: Trickle
):
    for command, here, there in both(cli, COMMANDS, "--json"):
        assert (here.exit_code, plain(here.json)) == (there.exit_code, plain(there.json)), command
        assert "handed" not in here.stderr
        assert handed_over(there) is (command[:2] not in LOCAL), command
    assert len(asked(user)) == len(COMMANDS) - len(LOCAL)


ODD: tuple[tuple[str, ...], ...] = (
    ("create", "x", "--query", "SELECT '\ud800'"),
    ("create", "x", "--query", "SELECT 1 -- \0"),
    ("create", "x", "--query", f"SELECT '{'a' * 2_000_000}' FROM items"),
    ("create", "x", "--query", "SELECT id FROM items", "--schedule", "9" * 9000),
    ("create", "x", "--query", "SELECT id FROM items", "--sink", "\0"),
    ("rename", "cheap", "\0"),
    ("rename", "cheap", "x" * 9000),
    ("alter", "cheap", "--max-delta-fraction", "nan"),
)


def test_what_no_request_can_carry_is_refused_as_without_a_daemon(
    cli: CommandLine, user: Connection[TupleRow], cheap: str, daemon: Trickle
):
    for command, here, there in both(cli, ODD, "--json"):
        assert (here.exit_code, here.error) == (1, there.error), command
    assert asked(user) == []


def test_lines_are_the_same_beside_a_daemon(
    cli: CommandLine, user: Connection[TupleRow], daemon: Trickle
):
    for command, here, there in both(cli, SOME):
        assert here.exit_code == there.exit_code, command
        assert _TIME.sub("", here.stdout) == _TIME.sub("", there.stdout), command
        assert handed_over(there), command
        assert _words(there.stderr) == _words(here.stderr), command


_TIME = re.compile(r" in [\d.]+ s")


def _words(text: str) -> list[str]:
    """Return what is said but for who does it, which a busy machine may take a while to tell."""
    aside = ("handed to the daemon", "waiting for the daemon")
    return [line for line in text.splitlines() if not line.startswith(aside)]


def test_difference_that_the_daemon_finds_is_shown_with_its_rows(
    cli: CommandLine, user: Connection[TupleRow], cheap: str, daemon: Trickle
):
    user.execute("SET session_replication_role = replica")
    user.execute("INSERT INTO cheap SELECT 9, 9")

    here, there = cli("verify", "cheap", "--local"), cli("verify", "cheap")

    assert (there.exit_code, there.stdout) == (here.exit_code, here.stdout)
    assert (there.exit_code, "extra:   9 | 9" in there.stdout) == (1, True)


def test_quiet_command_does_not_say_who_did_it(
    cli: CommandLine, cheap: str, daemon: Trickle, user: Connection[TupleRow]
):
    answer = cli("--quiet", "refresh", "cheap")

    assert (answer.exit_code, answer.stderr) == (0, "")
    assert asked(user) == [("refresh_stream_table", "COMPLETED")]


def test_command_without_a_daemon_asks_nobody(
    cli: CommandLine, cheap: str, user: Connection[TupleRow]
):
    assert cli("refresh", "cheap").exit_code == 0
    user.execute(
        "INSERT INTO pgtrickle.pgt_request_servers VALUES ('gone:1:x', now() - '1h'::interval)"
    )
    assert cli("refresh", "cheap").exit_code == 0

    assert asked(user) == []


@pytest.fixture
def held(cheap: str, user: Connection[TupleRow]) -> str:
    """Let another process have the lease of a stream table."""
    user.execute(
        "INSERT INTO pgtrickle.pgt_leases (pgt_id, owner, token, acquired_at, expires_at)"
        " SELECT pgt_id, 'elsewhere:1:x', 4711, now(), now() + interval '1 hour'"
        " FROM pgtrickle.pgt_stream_tables"
        " ON CONFLICT (pgt_id) DO UPDATE SET owner = excluded.owner, token = excluded.token,"
        " expires_at = excluded.expires_at"
    )
    return "cheap"


@pytest.mark.parametrize("verb", ["refresh", "verify"])
def test_daemon_waits_as_the_command_would(
    cli: CommandLine, held: str, user: Connection[TupleRow], daemon: Trickle, verb: str
):
    here, there = (cli(verb, held, "--no-wait", "--json", *one) for one in (["--local"], []))
    assert (there.exit_code, there.error) == (here.exit_code, here.error)
    assert there.error["code"] == "ST209"

    def release() -> None:
        waits = "SELECT FROM pgtrickle.pgt_requests WHERE status = 'RUNNING' AND notices <> '{}'"
        await_(lambda: user.execute(waits).rowcount)
        user.execute("UPDATE pgtrickle.pgt_leases SET expires_at = now()")

    releasing = threading.Thread(target=release)
    releasing.start()
    answer = cli(verb, held)
    releasing.join()

    assert answer.exit_code == 0, answer
    assert answer.stderr.count("waiting for cheap: ") == 1


def test_wait_of_the_daemon_is_bounded_as_that_of_the_command(
    cli: CommandLine, held: str, user: Connection[TupleRow], daemon: Trickle
):
    database = user.info.dbname
    user.execute(f"ALTER DATABASE {database} SET pg_trickle.request_timeout = 1".encode())
    here, there = (cli("refresh", held, "--json", *one) for one in (["--local"], []))

    assert (there.exit_code, there.error) == (here.exit_code, here.error)
    assert "request_timeout" in there.error["hint"]


def test_work_that_takes_longer_than_a_call_may_wait_is_not_cut_off(
    cli: CommandLine, cheap: str, user: Connection[TupleRow], daemon: Trickle, engine: Borrowed
):
    database = user.info.dbname
    user.execute(f"ALTER DATABASE {database} SET pg_trickle.request_timeout = 1".encode())
    user.execute("INSERT INTO items VALUES (3, 3)")
    engine.interruptions.append(lambda: threading.Event().wait(2))

    assert "DIFFERENTIAL +1" in cli("refresh", "cheap").stdout


def test_progress_of_the_daemon_is_shown(
    cli: CommandLine, cheap: str, user: Connection[TupleRow], daemon: Trickle, engine: Borrowed
):
    def advance() -> None:
        user.execute(
            "INSERT INTO pgtrickle.pgt_refresh_progress"
            " SELECT pgt_id, 'group_1', 1200000, 35, clock_timestamp(), clock_timestamp()"
            " FROM pgtrickle.pgt_stream_tables"
        )
        threading.Event().wait(3)

    user.execute("INSERT INTO items VALUES (3, 3)")
    engine.interruptions.append(advance)
    answer = cli("refresh", "cheap", PGTRICKLE_PROGRESS_SECONDS="0.5")

    assert answer.exit_code == 0, answer
    assert "public.cheap: group_1: 1,200,000 rows read, 35 staged" in answer.stderr


def test_interrupt_cancels_the_request(
    cheap: str,
    user: Connection[TupleRow],
    daemon: Trickle,
    engine: Borrowed,
    database: str,
    monkeypatch: pytest.MonkeyPatch,
):
    begun, go_on = threading.Event(), threading.Event()
    # The daemon looks for what was taken back a few times a second: until then it works.
    monkeypatch.setattr(engine, "cancel", lambda job: go_on.set())

    def work() -> None:
        begun.set()
        go_on.wait(60)

    user.execute("INSERT INTO items VALUES (3, 3)")
    engine.interruptions.append(work)
    environment = os.environ | {"PGTRICKLE_DSN": database, "PYTHONPATH": str(_SOURCE)}
    command = [sys.executable, "-m", "pgtrickle", "refresh", "cheap"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as typed:
        try:
            assert begun.wait(60)
            typed.send_signal(signal.SIGINT)
            _, told = typed.communicate(timeout=60)
        finally:
            typed.kill()

    assert (typed.returncode, told.endswith("interrupted\n")) == (130, True), told
    await_(lambda: asked(user) == [("refresh_stream_table", "CANCELLED")])
    assert user.execute("SELECT count(*) FROM cheap").fetchall() == [(1,)]


@pytest.fixture
def dying(user: Connection[TupleRow]) -> Iterator[Callable[[str], None]]:
    """Let a daemon seem to live for a second; what is given happens to requests before it ends."""
    user.execute(
        "INSERT INTO pgtrickle.pgt_request_servers VALUES ('there:7:x', now() + '1h'::interval)"
    )
    timers: list[threading.Timer] = []

    def die(statement: str) -> None:
        def end() -> None:
            await_(lambda: asked(user))
            user.execute(statement.encode())
            user.execute("DELETE FROM pgtrickle.pgt_request_servers")

        timers.append(threading.Timer(0, end))
        timers[0].start()

    yield die
    for timer in timers:
        timer.join()


def test_what_a_daemon_had_not_begun_when_it_died_is_done_here(
    cli: CommandLine, cheap: str, user: Connection[TupleRow], dying: Callable[[str], None]
):
    user.execute("INSERT INTO items VALUES (3, 3)")
    dying("SELECT 1")

    answer = cli("refresh", "--all")

    assert "public.cheap: DIFFERENTIAL +1" in answer.stdout
    assert "the pgtrickle daemon ended before it began: it is done here" in answer.stderr
    assert asked(user) == [("refresh_stream_table", "CANCELLED")]


def test_what_a_daemon_does_not_begin_in_time_is_done_here(
    cli: CommandLine, cheap: str, user: Connection[TupleRow], dying: Callable[[str], None]
):
    database = user.info.dbname
    user.execute(f"ALTER DATABASE {database} SET pg_trickle.request_timeout = 1".encode())
    user.execute("INSERT INTO items VALUES (3, 3)")

    answer = cli("refresh", "cheap")

    assert answer.stdout.startswith("public.cheap: DIFFERENTIAL +1")
    assert "daemon did not begin within 1 seconds: it is done here" in answer.stderr
    assert asked(user) == [("refresh_stream_table", "CANCELLED")]


def test_daemon_that_dies_at_work_is_told_as_to_a_call(
    cli: CommandLine, cheap: str, user: Connection[TupleRow], dying: Callable[[str], None]
):
    user.execute("INSERT INTO items VALUES (3, 3)")
    dying(
        "UPDATE pgtrickle.pgt_requests SET status = 'RUNNING', server = 'there:7:x',"
        " started_at = now()"
    )

    answer = cli("refresh", "cheap", "--json")

    assert (answer.exit_code, answer.error["code"]) == (1, "ST604")
    assert "pgtrickle run" in answer.error["hint"]
    assert user.execute("SELECT count(*) FROM cheap").fetchall() == [(1,)]


def test_request_that_somebody_took_back_is_an_error(
    cli: CommandLine, cheap: str, user: Connection[TupleRow], dying: Callable[[str], None]
):
    dying("UPDATE pgtrickle.pgt_requests SET status = 'CANCELLED', ended_at = now()")

    assert cli("refresh", "cheap", "--json").error["code"] == "ST603"
