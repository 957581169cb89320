"""A service gets every message, signed; it may be away, refuse one, or refuse all."""

from __future__ import annotations

import threading
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from pgtrickle.relay.envelopes import Envelope, decode
from pgtrickle.relay.sinks.webhook import sign
from tests.fixtures.daemons import await_
from tests.labs.lab import Lab
from tests.relay.receiver import Receiver
from tests.relay.shop import deliver, open_shop, relaying, status


class Service:
    """An HTTP server that keeps what it takes; ``answer`` says with which status."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.ids: list[str] = []
        self.unsigned = 0
        self.answer: Callable[[bytes], int] = lambda _: 204
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.take(dict(self.headers.items()), body, self)

            def log_message(self, *_: Any) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/hook?token=t0ken"

    def take(self, headers: dict[str, str], body: bytes, handler: BaseHTTPRequestHandler) -> None:
        status = self.answer(body)
        if status < 300:
            id_, at = headers["Idempotency-Key"], int(headers["webhook-timestamp"])
            self.unsigned += headers["webhook-signature"] != sign("s3cret", id_, at, body)
            self.ids.append(id_)
            self.bodies.append(body)
        handler.send_response(status)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    monkeypatch.setenv("PGTRICKLE_RELAY_SECRET", "s3cret")
    service = Service()
    yield service
    service.close()


def _create(lab: Lab, service: Service, **options: Any) -> None:
    lab.trickle.relay.create_relay_pipeline(
        "p",
        "keyed",
        "webhook",
        {"url": service.url, "secret": "${ENV:PGTRICKLE_RELAY_SECRET}"},
        poll_ms=20,
        **options,
    )


def test_messages_are_posted_and_signed(postgres_lab: Lab, service: Service):
    lab = postgres_lab
    open_shop(lab, "keyed")
    _create(lab, service)
    answers = iter([503, 429, 204, 500])
    service.answer = lambda _: next(answers, 204)
    with relaying(lab) as wait:
        wait()
        await_(lambda: status(lab).state == "streaming")
        lab.run("UPDATE t SET note = 'changed' WHERE id > 5")
        lab.refresh("keyed")
        wait()
    receiver = Receiver()
    receiver.take(service.bodies)
    receiver.check(lab, "keyed")
    assert (service.unsigned, len(service.ids)) == (0, len(service.bodies))
    assert service.ids == [one.id for one in receiver.take(service.bodies)]


def test_a_slow_service_is_waited_for_and_memory_stays_flat(postgres_lab: Lab, service: Service):
    """No page is read before the one before it was taken."""
    lab, taken = postgres_lab, []
    open_shop(lab, "keyed")
    _create(lab, service, sink_max_inflight=2)
    deliver(lab)
    lab.run("INSERT INTO t (id, v, note) SELECT i, 2, repeat('x', 200000 + i)"
            " FROM generate_series(1000, 1039) AS i")  # fmt: skip
    lab.refresh("keyed")

    def answer(body: bytes) -> int:
        time.sleep(0.005)
        taken.append(len(body))
        service.bodies.clear()
        return 204

    service.answer = answer
    tracemalloc.start()
    try:
        deliver(lab)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (len(taken), status(lab).lag_entries) == (40, 0)
    assert most < sum(taken) / 4


@pytest.mark.parametrize("code", [401, 404, 302])
def test_a_service_that_refuses_all_is_tried_again(
    postgres_lab: Lab, service: Service, code: int, caplog: pytest.LogCaptureFixture
):
    lab = postgres_lab
    open_shop(lab, "keyed")
    _create(lab, service)
    service.answer = lambda _: code
    with relaying(lab):
        await_(lambda: status(lab).error_code == "ST823")
        assert status(lab).state == "retrying"
        service.answer = lambda _: 204
        await_(lambda: status(lab).state == "streaming")
    receiver = Receiver()
    receiver.take(service.bodies)
    receiver.check(lab, "keyed")
    told = f"{status(lab)} {caplog.text}"
    assert "s3cret" not in told
    assert "t0ken" not in told


def _poison(body: bytes) -> int:
    return 422 if b'"poison"' in body else 204


def test_a_message_that_is_refused_blocks(postgres_lab: Lab, service: Service):
    lab = postgres_lab
    open_shop(lab, "keyed")
    _create(lab, service, max_failures=2)
    deliver(lab)
    service.answer = _poison
    lab.run("UPDATE t SET note = 'poison' WHERE id = 5", "UPDATE t SET note = 'x' WHERE id = 6")
    lab.refresh("keyed")
    with relaying(lab) as wait:
        await_(lambda: status(lab).state == "blocked")
        assert status(lab).error_code == "ST824"
        service.answer = lambda _: 204
        lab.trickle.relay.resume_relay("p")
        wait()
    receiver = Receiver()
    receiver.take(service.bodies)
    receiver.check(lab, "keyed")


def test_refused_messages_wait_with_those_of_their_key(postgres_lab: Lab, service: Service):
    lab, relay = postgres_lab, postgres_lab.trickle.relay
    open_shop(lab, "keyed")
    _create(lab, service, max_failures=2, on_poison="dead_letter_key")
    deliver(lab)
    service.answer = _poison
    for note in ("poison", "later"):
        lab.run(f"UPDATE t SET note = '{note}' WHERE id IN (5, 6)", "UPDATE t SET note = 'y'")
        lab.run("UPDATE t SET note = 'poison' WHERE id = 5" if note == "poison" else "SELECT 1")
        lab.refresh("keyed")
        deliver(lab)
    letters = relay.relay_dead_letters("p")
    assert [(one.op, one.key, one.error_code) for one in letters] == [
        ("update", '{"id": 5}', "ST824"),
        ("update", '{"id": 5}', "ST824"),
    ]
    assert status(lab).dead_letters == 2
    assert (status(lab).lag_entries, status(lab).error_code) == (0, None)
    told = Counter((decode(one, Envelope.PLAIN).key or {}).get("id") for one in service.bodies)
    assert told[5] == 1  # its row of the beginning
    assert relay.replay_dead_letters("p", [letters[0].dead_letter_id]) == 2
    deliver(lab)
    assert [one.replay_at for one in relay.relay_dead_letters("p")] == [None, None]  # refused again
    service.answer = lambda _: 204
    assert relay.replay_dead_letters("p") == 2
    deliver(lab)
    assert relay.relay_dead_letters("p") == []
    last: dict[object, object] = {}
    for one in (decode(body, Envelope.PLAIN) for body in service.bodies):
        last[(one.key or {}).get("id")] = one.after
    assert {id_: (row or {})["note"] for id_, row in last.items() if id_}[5] == "y"  # type: ignore[index]
