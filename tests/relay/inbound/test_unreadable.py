"""Messages that cannot be read are set aside as they came, and read again later."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pgtrickle.errors import TrickleError
from tests.labs.lab import Lab
from tests.relay.inbound.brokers import held, pipe, redis, status

BAD = {
    "no json": "hello",
    "nul": '{"id": "nul", "n": "\\u0000"}',
    "half": '{"id": "half", "n": "\\ud800"}',
    "nan": '{"id": "nan", "n": NaN}',
    "no id": '{"n": 1}',
    "list": "[1]",
    "id": '{"id": 1.5}',
    "long": json.dumps({"id": "x" * 3000}),
    "number": '{"id": "number", "rank": "high"}',
    "large": '{"id": "large", "rank": 3000000000}',
}


def test_bad_messages_are_dead_letters_and_good_ones_come(postgres_lab: Lab, tmp_path: Path):
    lab = postgres_lab
    with redis(tmp_path) as broker:
        options = {"id_field": "id", "priority_field": "rank", "aggregate_field": "of"}
        pipe(lab, broker, options=options)
        good = '{"id": "g%d", "n": %d, "rank": %d, "of": "x", "exact": 1.10}'
        mixed = [(f"b{number}", value) for number, value in enumerate(BAD.values())]
        mixed[3:3] = [("g1", good % (1, 1, 7))]
        broker.send([*mixed, ("g2", good % (2, 2, 8))])
        lab.trickle.inbound.run_inbound(once=True)

        assert held(lab) == [1, 2]
        found = lab.rows("SELECT priority, aggregate_id, payload ->> 'exact' FROM mail")
        assert found == [(7, "x", "1.10"), (8, "x", "1.10")]
        letters = lab.trickle.inbound.inbound_dead_letters("p")
        assert [one.value for one in letters] == [one.encode() for one in BAD.values()]
        assert {one.error_code for one in letters} == {"ST845"}
        assert status(lab).dead_letters == len(BAD)

        # A definition that reads more of them.
        assert lab.trickle.inbound.replay_inbound_dead_letters("p") == len(BAD)
        pipe(lab, broker, options={"format": "text"})
        lab.trickle.inbound.run_inbound(once=True)
        left = lab.trickle.inbound.inbound_dead_letters("p")
        assert (left, lab.value("SELECT count(*) FROM mail")) == ([], 2 + len(BAD))
        assert lab.value("SELECT count(*) FROM mail WHERE payload = '\"hello\"'") == 1


def test_a_pipeline_may_stop_at_them(postgres_lab: Lab, tmp_path: Path):
    lab = postgres_lab
    with redis(tmp_path) as broker:
        pipe(lab, broker, on_unreadable="block")
        broker.send([("a", '{"n": 1}'), ("b", "hello"), ("c", '{"n": 2}')])
        lab.trickle.inbound.run_inbound(once=True)
        assert (status(lab).state, status(lab).error_code) == ("blocked", "ST845")
        assert (held(lab), status(lab).dead_letters) == ([], 0)
        pipe(lab, broker)
        lab.trickle.inbound.run_inbound(once=True)
        assert (held(lab), status(lab).dead_letters) == ([1, 2], 1)


def test_dead_letters_have_a_bound_and_nothing_is_skipped(
    postgres_lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    lab = postgres_lab
    monkeypatch.setattr("pgtrickle.relay.dead_letters.MAX_DEAD_LETTERS", 2)
    with redis(tmp_path) as broker:
        pipe(lab, broker)
        values = ['{"n": 1}', "bad 1", '{"n": 2}', "bad 2", '{"n": 3}', "bad 3", '{"n": 4}']
        broker.send([(f"m{number}", value) for number, value in enumerate(values)])
        for _ in range(2):  # as often as it looks, it is the same
            lab.trickle.inbound.run_inbound(once=True)
            found = status(lab)
            assert (found.state, found.error_code, found.dead_letters) == ("blocked", "ST828", 2)
            assert (held(lab), "inbound replay" in str(found.hint)) == ([1, 2, 3], True)

        pipe(lab, broker, options={"format": "text"})
        lab.trickle.inbound.replay_inbound_dead_letters("p")
        lab.trickle.inbound.run_inbound(once=True)
        assert (status(lab).error_code, status(lab).dead_letters) == (None, 0)
        assert lab.value("SELECT count(*) FROM mail") == len(values)


@pytest.mark.parametrize(
    ("origin", "options", "more"),
    [
        ("kafak", {}, {}),
        ("redis", {"url": "redis://localhost"}, {}),
        ("redis", {"url": "localhost", "stream": "s"}, {}),
        ("redis", {"url": "redis://localhost", "stream": "s", "strem": 1}, {}),
        ("redis", {"url": "redis://localhost", "stream": "s", "format": "xml"}, {}),
        ("kafka", {"bootstrap_servers": "h:1", "topic": "t", "config": {"group.id": "g"}}, {}),
        ("redis", {"url": "redis://localhost", "stream": "s"}, {"start": "never"}),
        ("redis", {"url": "redis://localhost", "stream": "s"}, {"max_inflight": 0}),
    ],
)
def test_definitions_that_cannot_be_used_say_why(
    postgres_lab: Lab, origin: str, options: dict[str, object], more: dict[str, object]
):
    lab = postgres_lab
    lab.trickle.inbox.create_inbox("mail", with_stats=False, with_dead_letter=False)

    def define() -> None:
        verbs = lab.trickle.inbound
        verbs.create_inbound_pipeline("p", "mail", origin, options, **more)  # type: ignore[arg-type]
        verbs.validate_inbound()

    with pytest.raises(TrickleError) as caught:
        define()
    assert caught.value.code == "ST820"
    assert caught.value.hint


def test_secrets_of_the_catalog_are_bounded(
    postgres_lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    lab = postgres_lab
    monkeypatch.setenv("HOME_SECRET", "hidden")
    with redis(tmp_path) as broker:
        monkeypatch.setenv("PGTRICKLE_RELAY_URL", broker.options["url"])
        for name, code in (("HOME_SECRET", "ST827"), ("PGTRICKLE_RELAY_URL", None)):
            pipe(lab, broker, options={"url": f"${{ENV:{name}}}"})
            lab.trickle.inbound.run_inbound(once=True)
            assert status(lab).error_code == code
            assert "hidden" not in str(status(lab))
        # A file is of the relay's owner.
        file = tmp_path / "inbound.yml"
        given = {"inbox": "mail", "origin": "redis", "options": broker.options}
        file.write_text(json.dumps({"inbound": {"q": given}}))
        broker.send([("a", '{"n": 5}')])
        assert lab.trickle.inbound.validate_inbound(file) == ["q", "p"]
        assert lab.trickle.inbound.test_inbound("q", file) is None
        lab.trickle.inbound.run_inbound(file, ["q"], once=True)
        assert (held(lab), status(lab, "q").messages) == ([5], 1)
