"""An error has a code, goes to standard error, tells what to do and betrays no password."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pgtrickle import Trickle
from pgtrickle.cli.setup import Setup
from pgtrickle.errors import QuerySyntaxError
from pgtrickle.model.text.passwords import hide_passwords
from tests.cli.conftest import CommandLine

SECRET_DSN = "postgresql://ann:secret@db/shop"  # noqa: S105 - a password made up for this test


def failing(error: BaseException) -> CommandLine:
    """Return a command line on which connecting raises ``error``."""

    def connect(dsn: str | None, *, init: bool | None) -> Trickle:
        raise error

    return CommandLine("dbname=shop", Setup(connect=connect))


@pytest.fixture
def syntax_error() -> CommandLine:
    return failing(
        QuerySyntaxError(
            'syntax error at or near "FORM"',
            detail="SELECT [a] FORM t\n           ^^^^",
            hint="Did you mean FROM?",
        )
    )


def test_error_is_code_detail_and_hint(syntax_error: CommandLine) -> None:
    answer = syntax_error("list")

    assert answer.exit_code == 1
    assert answer.stdout == ""
    assert answer.stderr == (
        'error ST101: syntax error at or near "FORM"\n'
        "SELECT [a] FORM t\n"
        "           ^^^^\n"
        "hint: Did you mean FROM?\n"
    )


def test_error_as_json(syntax_error: CommandLine) -> None:
    answer = syntax_error("list", "--json")

    assert answer.exit_code == 1
    assert answer.stderr == ""
    assert answer.json == {
        "error": {
            "code": "ST101",
            "message": 'syntax error at or near "FORM"',
            "detail": "SELECT [a] FORM t\n           ^^^^",
            "hint": "Did you mean FROM?",
        }
    }


def test_error_without_debug_has_no_traceback(syntax_error: CommandLine) -> None:
    assert "Traceback" not in syntax_error("list").stderr


@pytest.mark.parametrize(
    "ask",
    [
        lambda cli: cli("--debug", "list"),
        lambda cli: cli("list", PGTRICKLE_DEBUG="1"),
    ],
    ids=["flag", "environment"],
)
def test_debug_shows_the_traceback(
    syntax_error: CommandLine, ask: Callable[[CommandLine], object]
) -> None:
    assert "Traceback" in str(ask(syntax_error))


def test_unforeseen_error_asks_for_a_report() -> None:
    answer = failing(ZeroDivisionError("division by zero"))("list")

    assert answer.exit_code == 1
    assert answer.stderr.startswith("error ST901: unexpected ZeroDivisionError: division by zero\n")
    assert "report" in answer.stderr
    assert "Traceback" not in answer.stderr


def test_unforeseen_error_as_json() -> None:
    answer = failing(ZeroDivisionError("division by zero"))("list", "--json")

    assert answer.exit_code == 1
    assert answer.error["code"] == "ST901"


def test_interrupt_exits_130() -> None:
    answer = failing(KeyboardInterrupt())("list")

    assert answer.exit_code == 130
    assert answer.stderr == "interrupted\n"


@pytest.mark.parametrize("form", [[], ["--json"]], ids=["text", "json"])
def test_password_is_never_printed(form: list[str]) -> None:
    error = QuerySyntaxError(SECRET_DSN, detail=f"at {SECRET_DSN}", hint=f"Try {SECRET_DSN}.")

    answer = failing(error)("--debug", "list", "--dsn", SECRET_DSN, *form)

    assert "secret" not in answer.stdout + answer.stderr
    assert "ann:***@db" in answer.stdout + answer.stderr


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://ann:se%zzcret@db/shop",
        "host=db password=my secret dbname=shop",
        "secret",
        "postgresql://ann:sec ret@db:x/shop",
    ],
)
@pytest.mark.parametrize("debug", [[], ["--debug"]], ids=["quiet", "debug"])
def test_unreadable_dsn_is_not_quoted(bare_cli: CommandLine, dsn: str, debug: list[str]) -> None:
    answer = bare_cli(*debug, "list", "--dsn", dsn)

    assert answer.exit_code == 1
    assert "error ST501: the connection string cannot be read\n" in answer.stderr
    assert "cret" not in answer.stderr


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("no secrets at all", "no secrets at all"),
        (SECRET_DSN, "postgresql://ann:***@db/shop"),
        ("postgres://ann:p@ss/wo@rd@db", "postgres://ann:***@db"),
        ("postgres://ann@db/shop", "postgres://ann@db/shop"),
        ("host=db PASSWORD = secret", "host=db PASSWORD = ***"),
        (r"password='it\'s secret' host=db", "password=*** host=db"),
        ("postgres://db/shop?user=ann&password=secret&x=1", "postgres://db/shop?user=ann&password=***&x=1"),
    ],
)  # fmt: skip
def test_passwords_are_found_in_every_form(text: str, hidden: str) -> None:
    assert hide_passwords(text) == hidden
