"""Messages come back from every envelope as they went in, and others are refused."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgtrickle.errors import EnvelopeError
from pgtrickle.relay.envelopes import Envelope, decode, encode
from pgtrickle.relay.messages import Message, Op, Place, Schema, Stream, read_id

NUMBERS = st.integers(0, 2**62)
PLACES = st.builds(Place, NUMBERS, st.booleans(), NUMBERS)
WORDS = st.text(max_size=5)
VALUES = st.none() | st.booleans() | st.integers() | WORDS
ROWS = st.none() | st.dictionaries(WORDS, VALUES, max_size=4).map(
    lambda row: json.dumps(row, ensure_ascii=False)
)
MESSAGES = st.builds(
    Message,
    st.builds(Stream, NUMBERS, WORDS, WORDS, WORDS),
    st.builds(Schema, st.integers(1, 1000), st.just(()), st.none()),
    PLACES,
    st.sampled_from(Op),
    ROWS,
    ROWS,
    ROWS,
    st.none() | st.datetimes().map(lambda moment: moment.replace(tzinfo=UTC)),
)
ONE = Message(
    Stream(12, "shop", "public", "revenue"),
    Schema(3, (("region", "text"), ("total", "numeric")), ("region",)),
    Place(7, row_number=2, in_contents=False),
    Op.UPDATE,
    '{"region": "north"}',
    '{"region": "north", "total": 0.10}',
    '{"region": "north", "total": 12345678901234567890.12345678901234567890}',
    datetime(2026, 1, 31, 10, tzinfo=UTC),
)


@settings(max_examples=50)
@given(MESSAGES, st.sampled_from(Envelope))
def test_messages_come_back_as_they_were(message: Message, envelope: Envelope):
    text = encode(message, envelope)

    received = decode(text, envelope)

    assert "\n" not in text
    assert received.id == message.id
    assert read_id(message.id) == (message.stream.pgt_id, message.place)
    assert (received.op, received.schema_version) == (message.op, message.schema.version)
    rows = (message.key, message.before, message.after)
    assert (received.key, received.before, received.after) == tuple(
        None if row is None else json.loads(row) for row in rows
    )


@pytest.mark.parametrize("envelope", Envelope)
def test_numbers_keep_every_digit(envelope: Envelope):
    received = decode(encode(ONE, envelope), envelope)

    assert received.after == {
        "region": "north",
        "total": Decimal("12345678901234567890.12345678901234567890"),
    }
    assert str((received.before or {})["total"]) == "0.10"


def test_debezium_has_what_its_readers_look_for():
    document = json.loads(encode(ONE, Envelope.DEBEZIUM))

    payload = document["payload"]
    assert payload["op"] == "u"
    assert payload["source"]["table"] == "revenue"
    assert payload["source"]["snapshot"] == "false"
    assert payload["ts_ms"] == 1769853600000


def test_events_have_the_attributes_of_cloudevents():
    document = json.loads(encode(ONE, Envelope.CLOUDEVENTS))

    assert {one: document[one] for one in ("specversion", "id", "source", "type", "time")} == {
        "specversion": "1.0",
        "id": "12:7:2",
        "source": "/pgtrickle/shop/public.revenue",
        "type": "pgtrickle.row.update",
        "time": "2026-01-31T10:00:00+00:00",
    }


@pytest.mark.parametrize(
    ("text", "envelope"),
    [
        (encode(ONE, Envelope.PLAIN).replace('"version": 1', '"version": 2'), Envelope.PLAIN),
        (encode(ONE, Envelope.CLOUDEVENTS).replace('"1.0"', '"2.0"'), Envelope.CLOUDEVENTS),
        (encode(ONE, Envelope.DEBEZIUM).replace('"pgtrickle"', '"mysql"'), Envelope.DEBEZIUM),
        (encode(ONE, Envelope.PLAIN), Envelope.DEBEZIUM),
        (encode(ONE, Envelope.PLAIN).replace("12:7:2", "12:7:x"), Envelope.PLAIN),
        ("[]", Envelope.PLAIN),
        ("no json", Envelope.CLOUDEVENTS),
        (b"\xff", Envelope.PLAIN),
    ],
)
def test_other_messages_are_refused(text: str | bytes, envelope: Envelope):
    with pytest.raises(EnvelopeError):
        decode(text, envelope)
