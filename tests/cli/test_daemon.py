"""``pgtrickle run`` as a service: leaders and followers, health, standbys, logs."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from http.client import NOT_FOUND, HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

import pgtrickle
from pgtrickle.cli.daemon.probes import Health, serving_health
from pgtrickle.errors import SettingError
from pgtrickle.scheduler.loop import Loop
from tests.fixtures.daemons import Daemon, await_
from tests.fixtures.restartable import OwnServer
from tests.scheduler.shop import Clock, Shop, Watched

_TAKE_OVER = timedelta(seconds=10)  # as promised
_NOTICED = 12.0  # seconds


def leader(dsn: str) -> str | None:
    with psycopg.connect(dsn) as connection:
        try:
            row = connection.execute(
                "SELECT owner FROM pgtrickle.pgt_leader WHERE expires_at > clock_timestamp()"
            ).fetchone()
        except psycopg.errors.UndefinedTable:
            return None
        return None if row is None else str(row[0])


def moment(dsn: str, query: str) -> datetime:
    with psycopg.connect(dsn) as connection:
        [(found,)] = connection.execute(query.encode()).fetchall()
        assert isinstance(found, datetime)
        return found


def pid_of(owner: str) -> int:
    return int(owner.split(":")[-2])


def test_follower_takes_over_when_the_leader_is_killed(
    database: str, start: Callable[..., Daemon]
) -> None:
    first = start(database)
    await_(lambda: leader(database))
    second = start(database)
    await_(lambda: "keeping stream tables fresh; Ctrl-C ends" in second.log())
    assert pid_of(str(leader(database))) == first.process.pid

    first.process.kill()

    # By the server's clock: how long this test takes to notice is not the daemon's fault.
    killed = moment(database, "SELECT clock_timestamp()")
    await_(lambda: (owner := leader(database)) and pid_of(owner) == second.process.pid)
    assert moment(database, "SELECT acquired_at FROM pgtrickle.pgt_leader") - killed < _TAKE_OVER


def test_leader_that_is_stopped_makes_way_at_once(
    database: str, start: Callable[..., Daemon]
) -> None:
    first = start(database)
    await_(lambda: leader(database))

    assert first.stop() == 0

    assert leader(database) is None


def test_hangup_ends_nothing_and_settings_are_followed(
    database: str, start: Callable[..., Daemon]
) -> None:
    daemon = start(database, "--log-format", "text")
    await_(lambda: leader(database))

    daemon.process.send_signal(signal.SIGHUP)
    with psycopg.connect(database, autocommit=True) as admin:
        admin.execute("SELECT pgtrickle.set_setting('trim_rows', '77')")

    await_(lambda: any("the setting trim_rows is now 77" in line for line in daemon.log()))
    assert daemon.stop() == 0


def test_health_tells_of_leader_and_follower(database: str, start: Callable[..., Daemon]) -> None:
    first = start(database, "--health-port", "0")
    assert await_(lambda: answer(f"{first.health}/ready")[0] == 200)
    second = start(database, "--health-port", "0")
    await_(lambda: answer(f"{second.health}/ready")[0] == 200)

    assert answer(f"{first.health}/ready")[1]["state"] == "leading"
    assert answer(f"{second.health}/ready")[1]["state"] == "standing by"
    assert answer(f"{second.health}/live")[0] == 200
    assert answer(f"{second.health}/other")[0] == 404


def answer(address: str) -> tuple[int, Any]:
    """Ask for an address; status 0 if nobody answers."""
    parts = urlsplit(address)
    connection = HTTPConnection(str(parts.hostname), parts.port, timeout=30)
    try:
        connection.request("GET", parts.path)
        response = connection.getresponse()
        body = response.read()
        return response.status, json.loads(body) if response.status != NOT_FOUND else None
    except OSError:
        return 0, None
    finally:
        connection.close()


def test_daemon_waits_on_a_standby_and_works_when_it_is_promoted(
    own_server: OwnServer, start: Callable[..., Daemon]
) -> None:
    pgtrickle.connect(own_server.dsn, init=True).close()
    with own_server.copy() as standby:
        standby.start()
        daemon = start(standby.dsn, "--health-port", "0")
        await_(lambda: [line for line in daemon.log() if line.startswith("waiting: ")])
        time.sleep(5)
        assert len([line for line in daemon.log() if "standby" in line]) == 1
        assert answer(f"{daemon.health}/live")[0] == 200
        assert answer(f"{daemon.health}/ready")[0] == 503

        standby.run("pg_ctl", "-D", str(standby.data), "-w", "promote")

        await_(lambda: leader(standby.dsn))
        assert daemon.stop() == 0


def test_daemons_step_down_when_a_newer_version_migrates_the_catalog(
    database: str, start: Callable[..., Daemon]
) -> None:
    daemons = [start(database), start(database)]
    await_(lambda: all("keeping stream tables fresh; Ctrl-C ends" in one.log() for one in daemons))
    await_(lambda: leader(database))

    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO pgtrickle.pgt_schema_version (version, description, sha256)"
            " VALUES (9999, 'from the future', repeat('0', 64))"
        )

    for daemon in daemons:  # the one that stands by, too
        assert daemon.process.wait(timeout=60) == 1
        [told] = [line for line in daemon.log() if line.startswith("error ST204: ")]
        assert "the catalog has version 9999, this package knows" in told
        assert any("Start the daemon with the version" in line for line in daemon.log())
    assert leader(database) is None


def test_log_as_json_is_one_document_a_line(database: str, start: Callable[..., Daemon]) -> None:
    daemon = start(database, "--log-format", "json")
    await_(lambda: leader(database))
    daemon.stop()

    documents = [json.loads(line) for line in daemon.log()]
    assert "keeping stream tables fresh; Ctrl-C ends" in [one["message"] for one in documents]
    [leading] = [one for one in documents if one["message"] == "leading"]
    assert set(leading) == {"time", "level", "logger", "message", "by"}


@pytest.mark.parametrize("options", [(), ("--log-format", "json")])
def test_second_daemon_says_who_leads_and_when_it_takes_over(
    database: str, start: Callable[..., Daemon], options: tuple[str, ...]
) -> None:
    first = start(database, *options)
    await_(lambda: leader(database))
    second = start(database, *options)
    who = str(leader(database)).rpartition(":")[0]

    await_(lambda: [line for line in second.log() if "standing by" in line and who in line])
    assert not [line for line in second.log() if "leading" in line]
    assert first.stop() == 0

    await_(lambda: [line for line in second.log() if "leading" in line])
    assert second.stop() == 0
    assert not [line for line in first.log() if "standing by" in line]
    if options:
        assert [json.loads(line) for daemon in (first, second) for line in daemon.log()]


def test_daemon_that_cannot_go_on_says_so_in_one_document(
    database: str, start: Callable[..., Daemon]
) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        pgtrickle.connect(database).close()
        connection.execute(
            "INSERT INTO pgtrickle.pgt_schema_version (version, description, sha256)"
            " VALUES (9999, 'from the future', repeat('0', 64))"
        )
    daemon = start(database, "--log-format", "json")

    assert daemon.process.wait(timeout=60) == 1
    documents = [json.loads(line) for line in daemon.log()]
    assert [one["error"]["code"] for one in documents if "error" in one] == ["ST204"]


def test_port_that_is_taken_is_named() -> None:
    with (
        serving_health(Health(), 0) as port,
        pytest.raises(SettingError, match=f"the port {port} cannot be used"),
        serving_health(Health(), port),
    ):
        pass


def test_scheduler_that_makes_no_rounds_is_taken_for_dead() -> None:
    health = Health()
    health.round("leading")
    assert (health.alive, health.ready) == (True, True)

    health.last_round -= 120

    assert (health.alive, health.ready) == (False, False)


def test_daemon_without_a_server_is_alive_but_not_ready() -> None:
    health = Health()
    health.round("standing by")
    health.problem = "could not connect to PostgreSQL"

    assert (health.alive, health.ready) == (True, False)


def test_daemon_whose_server_does_not_answer_is_not_ready_soon(
    own_server: OwnServer, start: Callable[..., Daemon]
) -> None:
    pgtrickle.connect(own_server.dsn, init=True).close()
    daemon = start(own_server.dsn, "--health-port", "0")
    await_(lambda: answer(f"{daemon.health}/ready")[0] == 200)

    own_server.stop()
    gone = time.monotonic()

    await_(lambda: answer(f"{daemon.health}/ready")[0] == 503)
    assert time.monotonic() - gone < _NOTICED
    assert answer(f"{daemon.health}/live")[0] == 200


def test_scheduler_that_decides_nothing_is_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    health, loop = Health(), Loop(Shop(Clock()), Watched())
    health.checks = [loop.find_problem]
    health.round("leading")
    assert health.ready

    monkeypatch.setattr("pgtrickle.scheduler.loop._DECIDES_WITHIN", -1.0)

    assert (health.alive, health.ready) == (True, False)
    assert health.document()["problem"]


def test_leader_that_could_not_prolong_its_lease_does_not_say_that_it_leads() -> None:
    health = Health(leads=lambda: False)
    health.round("leading")

    assert not health.leading
    assert health.document()["state"] == "standing by"


def test_health_is_served_on_another_address() -> None:
    with serving_health(Health(), 0, address="127.0.0.2") as port:
        assert answer(f"http://127.0.0.2:{port}/live")[0] == 200
        assert answer(f"http://127.0.0.1:{port}/live")[0] == 0
    with serving_health(Health(), 0, address="::1") as port:
        assert answer(f"http://[::1]:{port}/live")[0] == 200
    with (
        pytest.raises(SettingError, match="cannot be used"),
        serving_health(Health(), 0, address="192.0.2.1"),
    ):
        pass
