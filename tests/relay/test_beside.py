"""A relay inside the daemon delivers as one of its own, and ends and reloads with it."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import urllib3

from tests.fixtures.daemons import Daemon, await_
from tests.labs.lab import Lab
from tests.relay.receiver import Receiver
from tests.relay.shop import open_shop, status, write, write_file


def _given(lines: Path) -> dict[str, object]:
    return {"stream_table": "keyed", "sink": "file", "options": {"path": str(lines)}}


def _check(lab: Lab, lines: Path) -> None:
    receiver = Receiver()
    receiver.take(lines.read_bytes().splitlines())
    assert receiver.repeated == 0
    receiver.check(lab, "keyed")


def test_two_daemons_deliver_each_message_once_and_one_takes_over(
    postgres_lab: Lab, tmp_path: Path, start: Callable[..., Daemon]
):
    lab, draw, lines = postgres_lab, random.Random("beside"), tmp_path / "changes.jsonl"
    open_shop(lab, "keyed")
    lab.trickle.alter_stream_table("keyed", schedule="1s")
    file = write_file(tmp_path / "relay.json", p=_given(lines))
    options = ("--relay-config", str(file), "--health-port", "0")
    environment = {"PGTRICKLE_LEASE_SECONDS": "2", "PGTRICKLE_ENGINE": "postgres"}
    daemons = [start(lab.trickle.dsn, *options, **environment) for _ in range(2)]

    def even() -> bool:
        found = lab.trickle.relay.relay_status("p")
        return bool(found) and found[0].state == "streaming" and found[0].lag_entries == 0

    await_(even)
    assert _problem(daemons[0]) == "None"

    def told() -> bool:
        pages = [_ask(one, "metrics").decode() for one in daemons]
        return any('pgtrickle_relay_messages_total{database="' in page for page in pages)

    await_(told)
    holder = f":{daemons[0].process.pid}:"
    first = daemons[0] if holder in str(status(lab).relay) else daemons[1]
    [other] = [one for one in daemons if one is not first]
    first.process.kill()
    write(lab, draw, 1)
    lab.trickle.refresh_stream_table("keyed")
    await_(lambda: f":{other.process.pid}:" in str(status(lab).relay) and even())
    _check(lab, lines)
    # A definition that changes is followed; one that cannot be read changes nothing, and is told.
    more = tmp_path / "more.jsonl"
    write_file(file, p=_given(lines), q=_given(more))
    await_(lambda: more.exists() and len(lab.trickle.relay.relay_status()) == 2)
    file.write_text("nothing")
    await_(lambda: "relay: ST820" in _problem(other))
    write_file(file, p=_given(lines), q=_given(more))
    await_(lambda: _problem(other) == "None")
    assert other.stop() == 0
    assert status(lab).state == "stopped"
    assert status(lab).relay is None


def _problem(daemon: Daemon) -> str:
    return str(json.loads(_ask(daemon, "ready"))["problem"])


def _ask(daemon: Daemon, path: str) -> bytes:
    with urllib3.PoolManager() as pool:
        return bytes(pool.request("GET", f"{daemon.health}/{path}", retries=False).data)


def test_one_pass_refreshes_and_then_delivers(postgres_lab: Lab, tmp_path: Path):
    lab, draw, lines = postgres_lab, random.Random("pass"), tmp_path / "changes.jsonl"
    open_shop(lab, "keyed")
    lab.trickle.alter_stream_table("keyed", schedule="1s")
    file = write_file(tmp_path / "relay.json", p=_given(lines))
    for number in range(2):
        write(lab, draw, number)
        lab.trickle.run(once=True, relay_file=file)
        assert status(lab).lag_entries == 0
        _check(lab, lines)
