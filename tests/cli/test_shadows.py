"""``pgtrickle shadow``, and the walkthrough of docs/shadow-builds.md, line by line."""

from __future__ import annotations

import shlex
import threading

import psycopg
import pytest

from pgtrickle import connect
from tests.cli.conftest import CommandLine
from tests.cli.walkthroughs import DOCS, read_steps
from tests.fakes.engine import DuckDbEngine
from tests.fixtures.engines import Borrowed

OLD = "SELECT k, count(*) AS n FROM t GROUP BY k"
NEW = "SELECT k, count(*) AS n FROM t WHERE id > 1 GROUP BY k"


def test_walkthrough_prints_what_the_page_says(cli: CommandLine) -> None:
    assert cli.dsn is not None
    steps = read_steps((DOCS / "shadow-builds.md").read_text())
    assert len(steps) >= 12
    for step in steps:
        program, *arguments = shlex.split(step.command)
        if program == "psql":
            with psycopg.connect(cli.dsn, autocommit=True) as connection:
                connection.execute(arguments[1].encode())
            continue
        answer = cli(*arguments)
        assert answer.exit_code == 0, (step, answer)
        step.check(answer.stdout)


@pytest.fixture
def shop(cli: CommandLine) -> CommandLine:
    assert cli.dsn is not None
    with psycopg.connect(cli.dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY, k int)")
        connection.execute("INSERT INTO t SELECT i, i % 3 FROM generate_series(1, 9) AS i")
    assert cli("create", "counts", "--query", OLD).exit_code == 0
    return cli


def test_json_has_the_names_and_the_figures(shop: CommandLine) -> None:
    none = shop("shadow", "status", "counts", "--json").json
    assert shop("alter", "counts", "--query", NEW, "--shadow-build", "--hold").exit_code == 0
    ready = shop("shadow", "status", "counts", "--json").json["shadow_build"]
    compared = shop("shadow", "compare", "counts", "--limit", "1", "--json").json
    promoted = shop("shadow", "promote", "counts", "--json").json

    assert none == {"shadow_build": None}
    assert (ready["state"], ready["rows_loaded"], ready["converged"]) == ("ready", 3, True)
    assert ready["shadow_table_name"].startswith("pgtrickle_state.__pgt_shadow_")
    assert ready["query"] == NEW
    assert (compared["rows_added"], compared["rows_removed"]) == (1, 1)
    assert (compared["same"], compared["same_moment"], compared["complete"]) == (False, True, False)
    assert compared["changes"][0]["row"].keys() == {"k", "n"}
    assert promoted["action"] == "REINITIALIZE"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("shadow", "status", "missing"), "ST201"),
        (("shadow", "compare", "counts"), "ST225"),
        (("shadow", "promote", "counts"), "ST225"),
        (("shadow", "cancel", "counts"), "ST225"),
        (("alter", "counts", "--hold"), "ST226"),
    ],
)
def test_mistakes_have_a_code_and_a_hint(
    shop: CommandLine, arguments: tuple[str, ...], code: str
) -> None:
    answer = shop(*arguments, "--json")

    assert answer.exit_code == 1
    assert answer.error["code"] == code
    assert answer.error["hint"]


def test_daemon_compares_and_promotes(shop: CommandLine, duckdb_engine: DuckDbEngine) -> None:
    assert shop.dsn is not None
    with connect(shop.dsn, engine=Borrowed(duckdb_engine)) as daemon:
        with daemon.daemon.serving_requests():
            begun = shop("alter", "counts", "--query", NEW, "--shadow-build", "--hold", "--json")
            loading = shop("shadow", "compare", "counts", "--json")
            daemon.daemon.follow_shadows(threading.Event())
            compared = shop("shadow", "compare", "counts", "--json")
            promoted = shop("shadow", "promote", "counts")
            ended = shop("shadow", "cancel", "counts", "--json")
        here = shop("shadow", "status", "counts")

    assert begun.exit_code == 0
    assert loading.error["code"] == "ST226"
    assert (compared.json["rows_added"], compared.json["rows_removed"]) == (1, 1)
    assert promoted.stdout.endswith("that of its shadow: +1 -1 rows\n")
    assert ended.error["code"] == "ST225"
    for answer in (begun, loading, compared, promoted, ended):
        assert "handed to the daemon" in answer.stderr
    assert here.stdout == "public.counts: promoted: 3 rows, 1 refreshes\n"
