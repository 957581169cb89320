"""One chaos run: writes and refreshes all the while, accidents in between, a judge at the end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from random import Random

import psycopg

import pgtrickle
from pgtrickle.embedded.server import start_embedded
from pgtrickle.settings import POSTGRES, Settings
from tests.fixtures.daemons import await_
from tests.relay.chaos.brokers import Broker
from tests.relay.chaos.judge import Verdict, judge, row_text
from tests.relay.chaos.wire import Wire
from tests.relay.servers import free_port

_SOURCE = Path(__file__).parents[3] / "src"
_TABLE = (
    "CREATE TABLE t (id int PRIMARY KEY, k int, v numeric)",
    "INSERT INTO t SELECT i, i % 7, i / 3.0 FROM generate_series(1, 300) AS i",
)
_WRITES = (
    "UPDATE t SET v = v + {n} / 10.0 WHERE id % 50 = {n} % 50",
    "DELETE FROM t WHERE id % 97 = {n} % 97",
    "INSERT INTO t SELECT {n} * 10 + i, i, {n} FROM generate_series(1, 8) AS i"
    " ON CONFLICT (id) DO UPDATE SET v = excluded.v",
)
_UPKEEP_SECONDS = 300.0  # for a relay to deliver what is left


@dataclass(frozen=True, slots=True)
class Plan:
    """How long, and how many accidents of each kind."""

    seconds: float
    kills: int
    restarts: int
    cuts: int
    seed: int = 1


@dataclass(slots=True)
class Outcome:
    """What happened, and what a consumer found."""

    verdict: Verdict
    refreshes: int
    done: Counter[str]


@dataclass(slots=True)
class _Scene:
    """The processes of a run."""

    broker: Broker
    directory: Path
    dsn: str
    port: int = field(default_factory=free_port)
    wire: Wire | None = None
    server: AbstractContextManager[object] | None = None
    relay: subprocess.Popen[bytes] | None = None
    done: Counter[str] = field(default_factory=Counter)

    def start_broker(self) -> None:
        assert self.wire is not None
        folder = self.directory / "broker"
        folder.mkdir(exist_ok=True)
        self.server = self.broker.serve(folder, self.port, self.wire.port)
        self.server.__enter__()

    def stop_broker(self) -> None:
        if self.server is not None:
            self.server.__exit__(None, None, None)
            self.server = None

    def start_relay(self) -> None:
        program = "from pgtrickle.cli.main import app; app()"
        config = str(self.directory / "relay.json")
        environment = {
            "PYTHONPATH": str(_SOURCE),
            "PGTRICKLE_DSN": self.dsn,
            "PGTRICKLE_LEASE_SECONDS": "2",
        }
        with (self.directory / "relay.log").open("ab") as log:
            self.relay = subprocess.Popen(
                [sys.executable, "-c", program, "relay", "run", "--config", config],
                env=os.environ | environment,
                stdout=log,
                stderr=log,
            )

    def kill_relay(self) -> None:
        if self.relay is not None:
            self.relay.kill()
            self.relay.wait()
            self.relay = None

    def have(self, accident: str) -> None:
        """Let something go wrong, and come back."""
        match accident:
            case "kill":
                self.kill_relay()
                self.start_relay()
            case "restart":
                self.stop_broker()
                self.start_broker()
            case "cut":
                assert self.wire is not None
                self.wire.cut()
            case _:
                raise AssertionError(accident)
        self.done[accident] += 1


def run(broker: Broker, plan: Plan, directory: Path) -> Outcome:
    """Write, refresh, and let things go wrong; then wait, read the stream, and judge."""
    draw = Random(plan.seed)
    settings = Settings(engine=POSTGRES)
    with ExitStack() as stack:
        server = stack.enter_context(start_embedded(directory / "home"))
        trickle = stack.enter_context(pgtrickle.connect(server.dsn, settings=settings, init=True))
        connection = stack.enter_context(psycopg.connect(server.dsn, autocommit=True))
        scene = _Scene(broker, directory, server.dsn)
        scene.wire = Wire(free_port(), scene.port)
        stack.callback(scene.wire.close)
        stack.callback(scene.stop_broker)
        stack.callback(scene.kill_relay)
        scene.start_broker()
        await_(lambda: _prepared(broker, scene.wire.port if scene.wire else 0))
        for statement in _TABLE:
            connection.execute(statement.encode())
        trickle.create_stream_table("s", "SELECT id, k, v FROM t")
        trickle.outbox.enable_outbox("s", inline_threshold_rows=20)
        given = {"stream_table": "s", "sink_max_inflight": 20, "poll_ms": 10}
        given |= broker.options(scene.wire.port)
        (directory / "relay.json").write_text(json.dumps({"pipelines": {"p": given}}))
        scene.start_relay()
        accidents = threading.Thread(target=_have_accidents, args=(scene, plan, draw))
        accidents.start()
        refreshes = 0
        while accidents.is_alive():
            statement = draw.choice(_WRITES).format(n=draw.randrange(10_000))
            connection.execute(statement.encode())
            trickle.refresh_stream_table("s", full=refreshes % 50 == 49)
            refreshes += 1
            time.sleep(0.02)
        await_(lambda: _is_even(trickle), _UPKEEP_SECONDS)
        scene.kill_relay()
        held = connection.execute("SELECT to_jsonb(s)::text FROM s").fetchall()
        table = Counter(row_text(json.loads(row, parse_float=Decimal)) for (row,) in held)
        verdict = judge(broker.read(scene.wire.port), table)
        return Outcome(verdict, refreshes, scene.done)


def _prepared(broker: Broker, wire: int) -> bool:
    broker.prepare(wire)
    return True


def _have_accidents(scene: _Scene, plan: Plan, draw: Random) -> None:
    accidents = ["kill"] * plan.kills + ["restart"] * plan.restarts + ["cut"] * plan.cuts
    draw.shuffle(accidents)
    began = time.monotonic()
    for number, accident in enumerate(accidents):
        due = began + plan.seconds * (number + draw.random()) / len(accidents)
        time.sleep(max(due - time.monotonic(), 0.1))
        scene.have(accident)


def _is_even(trickle: pgtrickle.Trickle) -> bool:
    found = trickle.relay.relay_status("p")
    return bool(found) and found[0].state == "streaming" and found[0].lag_entries == 0
