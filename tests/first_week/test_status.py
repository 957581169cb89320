"""What a person types to see how things are, and what a script reads."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable

from tests.first_week.newcomer import REVENUE, Newcomer
from tests.fixtures.daemons import Daemon, await_

Start = Callable[..., Daemon]

LISTINGS = (
    ("list",),
    ("history", "revenue"),
    ("errors", "revenue"),
    ("status",),
    ("health",),
    ("tree",),
    ("doctor",),
    ("fuse", "status"),
    ("gate", "list"),
    ("watermark", "status"),
    ("group", "list"),
    ("sink", "status"),
    ("config",),
)


def test_status_shows_the_daemon_and_serves_monitoring(shop: Newcomer, daemon: Start) -> None:
    assert shop.type("status").status != 0  # nobody refreshes it

    daemon(shop)

    await_(lambda: shop.type("status").status == 0)
    assert "leads" in shop.type("status").out
    assert shop.type("health").status == 0
    shop.psql("SELECT pgtrickle.gate_source('orders');")
    assert "revenue" in shop.type("status").out


def test_subscriber_reads_refreshes_as_they_come(shop: Newcomer) -> None:
    output = shop.directory / "heard"
    command = [sys.executable, "-m", "pgtrickle", "subscribe", "revenue"]
    with (
        output.open("w") as heard,
        subprocess.Popen(command, env=shop.environment, stdout=heard, stderr=heard) as listening,
    ):
        try:
            await_(lambda: "listening" in output.read_text())
            shop.sql("INSERT INTO orders VALUES (4, 'west', 1)")
            assert shop.type("refresh", "revenue").status == 0

            await_(lambda: "public.revenue: DIFFERENTIAL +1 -0" in output.read_text())

            listening.send_signal(signal.SIGINT)
            assert listening.wait(timeout=30) == 0
        finally:
            listening.kill()


def test_short_commands_import_nothing_large(shop: Newcomer) -> None:
    """Wall times are measured apart: a busy machine would decide here."""
    for command in (("list",), ("history", "revenue"), ("show", "revenue"), ("status",)):
        imported = shop.run(*command, PYTHONPROFILEIMPORTTIME="1").err
        assert "psycopg" in imported
        assert not {"pandas", "pyarrow", "pyspark", "duckdb"} & set(re.findall(r"\w+", imported))


def test_work_beside_a_daemon_is_its_own_and_needs_no_engine_here(
    shop: Newcomer, daemon: Start
) -> None:
    pid = daemon(shop).process.pid
    assert shop.run("alter", "revenue", "--schedule", "1h").status == 0
    shop.sql("INSERT INTO orders VALUES (4, 'west', 1)")

    refreshed = shop.run("refresh", "revenue", PYTHONPROFILEIMPORTTIME="1")

    assert refreshed.out.startswith("public.revenue: DIFFERENTIAL +1 -0 in ")
    assert f", pid {pid}" in refreshed.err
    words = set(re.findall(r"\w+", refreshed.err))
    assert not {"pandas", "pyarrow", "pyspark", "duckdb", "sqlglot"} & words


def test_version_and_replacement_by_one_word(shop: Newcomer) -> None:
    assert shop.run("--version").status == 0
    query = f"{REVENUE} HAVING sum(amount) > 15"

    replaced = shop.type("create", "revenue", "--or-replace", "--query", query)

    assert replaced.status == 0, replaced.err
    assert shop.rows("SELECT region FROM revenue") == [("south",)]


def test_json_is_always_one_object_with_a_list(shop: Newcomer) -> None:
    documents = {command: shop.type(*command, "--json").document for command in LISTINGS}

    assert {command for command, found in documents.items() if not isinstance(found, dict)} == set()
    assert {
        command
        for command, found in documents.items()
        if not any(isinstance(value, list) for value in found.values())
    } == set()


def test_names_are_whole_and_the_tree_is_drawn(shop: Newcomer) -> None:
    name = "a_name_of_quite_some_length_as_one_has_them_in_a_warehouse"
    query = "SELECT count(*) AS n FROM revenue"
    assert shop.type("create", name, "--query", query).status == 0

    assert name in shop.type("list").out
    tree = shop.rows("SELECT tree_line FROM pgtrickle.dependency_tree()")
    assert any(line.startswith(("├", "└")) for (line,) in tree)


def test_command_waits_for_the_one_in_progress(shop: Newcomer) -> None:
    shop.sql("INSERT INTO orders VALUES (4, 'west', 1)")
    begun = threading.Event()

    def work() -> None:
        begun.set()
        time.sleep(3)

    shop.engine.interruptions.append(work)
    first = threading.Thread(target=shop.trickle.refresh_stream_table, args=("revenue",))
    first.start()
    assert begun.wait(30)

    impatient = shop.type("refresh", "revenue", "--no-wait", "--json")
    patient = shop.type("refresh", "revenue")
    first.join()

    assert (impatient.status, impatient.document["error"]["code"]) == (1, "ST209")
    assert patient.status == 0, patient.err
