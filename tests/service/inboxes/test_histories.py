"""Random histories: what the stream tables of an inbox show is what a model of it says."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from tests.labs.lab import Lab
from tests.seeds import seed_of

_SEED = seed_of("PGTRICKLE_INBOX_SEED", 2205)
_RETRIES = 2


@dataclass(slots=True)
class Told:
    """A message as the model has it."""

    aggregate: str | None
    sequence: int
    priority: int
    tries: int = 0
    done: bool = False

    @property
    def waits(self) -> bool:
        return not self.done and self.tries < _RETRIES


Model = dict[str, Told]


def pending(model: Model) -> set[str]:
    return {key for key, one in model.items() if one.waits}


def dead(model: Model) -> set[str]:
    return {key for key, one in model.items() if not one.done and one.tries >= _RETRIES}


def following(model: Model) -> set[str]:
    """Return the first message of each aggregate that is not done, if it may be tried."""
    first: dict[str, str] = {}
    for key, one in sorted(model.items(), key=lambda item: item[1].sequence):
        if not one.done and one.aggregate is not None:
            first.setdefault(one.aggregate, key)
    free = {key for key in pending(model) if model[key].aggregate is None}
    return free | {key for key in first.values() if model[key].waits}


def act(lab: Lab, model: Model, draw: random.Random) -> None:
    """Let a producer or a worker do something, in the inbox and in the model."""
    match draw.choice(["receive", "receive", "work", "work", "fail", "fail", "replay"]):
        case "receive":
            for _ in range(draw.randint(1, 4)):
                _receive(lab, model, draw)
        case "work" if waiting := sorted(following(model)):
            key = draw.choice(waiting)
            model[key].done = True
            lab.run(f"UPDATE mail SET processed_at = now() WHERE event_id = '{key}'")
        case "fail" if waiting := sorted(following(model)):
            key = draw.choice(waiting)
            model[key].tries += 1
            lab.run(f"UPDATE mail SET retry_count = retry_count + 1 WHERE event_id = '{key}'")
        case "replay":
            some = [key for key in sorted(dead(model)) if draw.random() < 0.5]
            assert lab.trickle.inbox.replay_inbox_messages("mail", some) == len(some)
            for key in some:
                model[key].tries = 0
        case _:
            pass


def _receive(lab: Lab, model: Model, draw: random.Random) -> None:
    """Insert a message that may have come before, then perhaps with other contents."""
    number = draw.randrange(40)
    key, priority = f"m{number}", draw.randrange(4)
    aggregate = draw.choice([None, "x", "y", "z"]) if key not in model else "again"
    told = "NULL" if aggregate is None else f"'{aggregate}'"
    lab.run(
        "INSERT INTO mail (event_id, aggregate_id, sequence_num, priority)"
        f" VALUES ('{key}', {told}, {number}, {priority}) ON CONFLICT (event_id) DO NOTHING"
    )
    model.setdefault(key, Told(aggregate, number, priority))


def shown(lab: Lab, table: str) -> set[str]:
    found = [key for (key,) in lab.rows(f"SELECT event_id FROM {table}")]
    assert len(found) == len(set(found))
    return set(found)


@pytest.mark.parametrize("number", range(2))
def test_an_inbox_is_what_the_model_says(postgres_lab: Lab, number: int):
    lab, draw, model = postgres_lab, random.Random(f"{_SEED} {number}"), Model()
    lab.trickle.inbox.create_inbox("mail", max_retries=_RETRIES)
    lab.trickle.inbox.enable_inbox_ordering("mail")
    lab.trickle.inbox.enable_inbox_priority("mail", urgent_from=2)
    for _ in range(12):
        for _ in range(draw.randint(1, 6)):
            act(lab, model, draw)
        for part in ("pending", "dlq", "stats", "next", "urgent"):
            lab.trickle.refresh_stream_table(f"mail_{part}")

        assert shown(lab, "mail") == set(model)
        assert shown(lab, "mail_pending") == pending(model)
        assert shown(lab, "mail_dlq") == dead(model)
        assert shown(lab, "mail_next") == following(model)
        urgent = {key for key in following(model) if model[key].priority >= 2}
        assert shown(lab, "mail_urgent") == urgent
        counted = lab.rows(
            "SELECT sum(messages), sum(pending), sum(dead_letters), sum(processed) FROM mail_stats"
        )
        if model:
            done = sum(one.done for one in model.values())
            assert counted == [(len(model), len(pending(model)), len(dead(model)), done)]
    for part in ("pending", "dlq", "stats", "next", "urgent"):
        assert lab.trickle.verify_stream_table(f"mail_{part}").ok
