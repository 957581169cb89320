"""Without its extras the package works with PostgreSQL alone, and names what the rest lacks.

A process in which the modules of extras cannot be imported stands for such an installation.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgtrickle.extras import EXTRA_OF

ROOT = Path(__file__).resolve().parents[2]
_WITHOUT = """
import sys
from importlib.abc import MetaPathFinder

missing = set(sys.argv.pop(1).split(","))

class Missing(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in missing:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
from pgtrickle.cli.main import app
app(prog_name="pgtrickle")
"""
SMALL = ",".join(EXTRA_OF)


def run(dsn: str, missing: str, *arguments: str, **env: str) -> tuple[int, Any]:
    """Run a command in a process that cannot import some modules."""
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT, missing, *arguments, "--json"],
        env={**os.environ, "PGTRICKLE_DSN": dsn, **env},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip(), done.stderr
    return done.returncode, json.loads(done.stdout)


@pytest.fixture
def shop(database: str) -> str:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("CREATE TABLE orders (id int PRIMARY KEY, region text)")
    return database


QUERY = "SELECT region, count(*) AS n FROM orders GROUP BY region"


def test_small_installation_works_with_postgres_as_the_engine(shop: str, tmp_path: Path) -> None:
    (tmp_path / "pgtrickle.yml").write_text(
        "project: shop\n"
        f"stream_tables: {{counts: {{query: '{QUERY}', refresh_mode: DIFFERENTIAL}}}}\n"
    )
    work = """
        import pgtrickle, psycopg
        with pgtrickle.connect() as trickle:
            assert trickle.validate_query(QUERY).differential
            assert len(trickle.projects.plan_project(FOLDER).pending) == 1
            trickle.projects.apply_project(FOLDER)
            with psycopg.connect(trickle.dsn, autocommit=True) as connection:
                connection.execute("INSERT INTO orders VALUES (1, 'north')")
            trickle.refresh_stream_table("counts")
            trickle.run(once=True)
            print(trickle.refresh_history("counts")[0].action.value)
            print(trickle.verify_stream_table("counts").ok, len(trickle.list_stream_tables()))
            try:
                trickle.table("counts").to_arrow()
            except pgtrickle.TrickleError as error:
                print(error.code, error.hint)
    """
    words = work.replace("QUERY", repr(QUERY)).replace("FOLDER", repr(str(tmp_path)))
    program = _WITHOUT.partition("from pgtrickle")[0] + textwrap.dedent(words)
    done = subprocess.run(
        [sys.executable, "-c", program, SMALL],
        env={**os.environ, "PGTRICKLE_DSN": shop, "PGTRICKLE_ENGINE": "postgres"},
        capture_output=True,
        text=True,
        check=False,
    )
    first, second, third = (done.stdout or done.stderr).splitlines()[-3:]
    assert (first, second) == ("DIFFERENTIAL", "True 1")
    assert third.startswith("ST508 Install it: pip install 'pgtrickle[lake]'")


@pytest.mark.parametrize(
    ("missing", "more", "extra"),
    [
        (SMALL, ("--sink", "ducklake"), "lake"),
        ("pyspark,py4j", (), "spark"),
        (SMALL, (), "spark"),
    ],
)
def test_work_that_needs_an_extra_names_it_and_changes_nothing(
    shop: str, missing: str, more: tuple[str, ...], extra: str
) -> None:
    settings = {"PGTRICKLE_ENGINE": "spark" if extra == "spark" else "postgres"}
    code, answer = run(shop, missing, "create", "counts", "--query", QUERY, *more, **settings)

    assert (code, answer["error"]["code"]) == (1, "ST508")
    assert f"pip install 'pgtrickle[{extra}]'" in answer["error"]["hint"]
    assert run(shop, missing, "list") == (0, {"stream_tables": []})


def test_extras_bring_the_modules_that_errors_say_they_bring() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    named = {
        name.replace("_", "-")
        for name in EXTRA_OF
        if name not in {"py4j", "grpc"}  # of pyspark
    }
    for name in named:
        extra = EXTRA_OF[name.replace("-", "_")]
        assert any(one.startswith(name) for one in extras[extra]), name
        assert not any(one.startswith(name) for one in project["dependencies"])
    assert extras["all"] == [
        "pgtrickle[spark,embedded,console,ui,webhook,redis,nats,sqs,kafka,rabbitmq,otel,lineage]"
    ]
