"""``cdc_paused``: a switch that pauses the capture of every source, and no pause of somebody's."""

from __future__ import annotations

import time
from collections.abc import Iterator

import psycopg
import pytest

from pgtrickle.errors import CapturePausedError, ServerBusyError
from pgtrickle.service.capturing.switch import follow_switch, following_switch, tend_switch
from tests.labs.lab import Lab

PAUSED = """
    SELECT coalesce(array_agg(t.source_name ORDER BY t.source_name), '{}')
      FROM pgtrickle.pgt_change_tracking AS t WHERE t.paused_at IS NOT NULL
"""


@pytest.fixture
def shop(lab: Lab) -> Iterator[Lab]:
    lab.run("CREATE TABLE t (a int)", "CREATE TABLE u (a int)")
    lab.create("of_t", "SELECT count(*) AS n FROM t")
    lab.create("of_u", "SELECT count(*) AS n FROM u")
    lab.create("by_writers", "SELECT a, count(*) AS n FROM u GROUP BY a", mode="IMMEDIATE")
    yield lab
    lab.trickle.set_setting("cdc_paused", None)
    lab.trickle.capture.resume_cdc()


def test_switch_pauses_every_source_in_open_sessions_and_lasts(shop: Lab):
    shop.trickle.set_setting("cdc_paused", "on")

    assert shop.value(PAUSED) == ["t", "u"]
    shop.run("INSERT INTO t VALUES (1)", "INSERT INTO u VALUES (1)")
    with psycopg.connect(shop.trickle.dsn, autocommit=True) as another:
        another.execute("INSERT INTO t VALUES (2)")
    assert shop.value("SELECT count(*) FROM by_writers") == 0
    sizes = "SELECT sum(pending_rows) FROM pgtrickle.change_buffer_sizes()"
    assert shop.value(sizes) == 0
    with pytest.raises(CapturePausedError, match="cdc_paused"):
        shop.create("of_both", "SELECT t.a FROM t JOIN u USING (a)")

    shop.trickle.set_setting("cdc_paused", None)

    assert shop.value(PAUSED) == []
    assert shop.trickle.refresh_stream_table("of_t").action.value == "REINITIALIZE"
    shop.trickle.refresh_stream_table("by_writers")
    shop.run("INSERT INTO t VALUES (3)", "INSERT INTO u VALUES (1)")
    assert shop.trickle.refresh_stream_table("of_t").action.value == "DIFFERENTIAL"
    assert shop.rows("TABLE of_t") == [(3,)]
    assert shop.rows("TABLE by_writers") == [(1, 2)]


def test_pauses_by_name_are_not_the_switchs(shop: Lab):
    shop.trickle.capture.pause_cdc("t")
    shop.trickle.set_setting("cdc_paused", "on")
    shop.trickle.capture.pause_cdc("u")  # from now on somebody's
    shop.trickle.set_setting("cdc_paused", "off")

    assert shop.value(PAUSED) == ["t", "u"]
    assert shop.value("SELECT count(*) FROM pgtrickle.pgt_immediate_pauses") == 1


def test_daemon_follows_what_a_session_has_set(shop: Lab):
    shop.run("SELECT pgtrickle.set_setting('cdc_paused', 'on')")
    shop.trickle._runtime.look_at_settings()
    tend_switch(shop.trickle._runtime)
    assert shop.value(PAUSED) == ["t", "u"]
    # Somebody resumes against the switch: it is paused again.
    shop.trickle.capture.resume_cdc("t")
    tend_switch(shop.trickle._runtime)
    assert shop.value(PAUSED) == ["t", "u"]

    shop.run("SELECT pgtrickle.set_setting('cdc_paused', 'off')")
    shop.trickle._runtime.look_at_settings()
    tend_switch(shop.trickle._runtime)
    assert shop.value(PAUSED) == []
    assert follow_switch(shop.trickle._runtime) == []


def test_source_that_is_gone_holds_nothing_up(shop: Lab):
    shop.trickle.set_setting("cdc_paused", "on")
    shop.trickle.drop_stream_table("of_t")
    shop.run("DROP TABLE t")
    shop.trickle.set_setting("cdc_paused", "off")

    assert shop.value(PAUSED) == []
    assert shop.value("SELECT count(*) FROM pgtrickle.pgt_switched_pauses") == 0


def test_source_in_use_holds_no_other_up(shop: Lab):
    shop.trickle.set_setting("cdc_paused", "on")
    with psycopg.connect(shop.trickle.dsn) as writer:
        writer.execute("INSERT INTO t VALUES (1)")  # a resumption waits for it
        shop.run("SELECT pgtrickle.set_setting('cdc_paused', 'off')")
        shop.trickle._runtime.look_at_settings()
        with pytest.raises(ServerBusyError):
            follow_switch(shop.trickle._runtime, 0.1)
        assert shop.value(PAUSED) == ["t"]
        writer.rollback()
    with following_switch(shop.trickle._runtime, lambda: True):
        until = time.monotonic() + 30
        while shop.value(PAUSED) != []:
            assert time.monotonic() < until
            time.sleep(0.05)
