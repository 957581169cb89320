"""Messages come back from every envelope as they went in, and others are refused."""

from __future__ import annotations

import json
import re
from dataclasses import replace
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


EXACT = [one for one in Envelope if one is not Envelope.DEBEZIUM_SCHEMA]  # that has texts of types


@settings(max_examples=50)
@given(MESSAGES, st.sampled_from(EXACT))
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


@pytest.mark.parametrize("envelope", EXACT)
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


def test_a_schema_says_what_the_rows_have():
    """As the converter of Kafka Connect reads it: a value of another form is null or zero."""
    schema = Schema(4, (("id", "bigint"), ("ok", "boolean"), ("w", "double precision")), ("id",))
    one = replace(
        ONE,
        schema=schema,
        key='{"id": 9007199254740993}',
        before='{"id": 9007199254740993, "ok": null, "w": "NaN"}',
        after='{"id": 9007199254740993, "ok": true, "w": 1.50}',
    )

    document = json.loads(encode(one, Envelope.DEBEZIUM_SCHEMA))

    fields = {part["field"]: part for part in document["schema"]["fields"]}
    assert set(fields) == set(document["payload"]) - {"transaction"}
    types = {"int64": int, "int32": int, "string": str, "boolean": bool}
    for place in ("before", "after", "source"):
        described = {part["field"]: types[part["type"]] for part in fields[place]["fields"]}
        for name, value in document["payload"][place].items():
            assert value is None or type(value) is described[name]
    assert document["payload"]["after"] == {"id": 9007199254740993, "ok": True, "w": "1.50"}
    assert document["payload"]["before"]["w"] == "NaN"
    received = decode(json.dumps(document), Envelope.DEBEZIUM_SCHEMA)
    assert (received.id, received.key) == (one.id, {"id": 9007199254740993})


@settings(max_examples=50)
@given(MESSAGES)
def test_events_keep_the_rules_of_cloudevents(message: Message):
    """Version 1.0.2: names of attributes, those that must be there, and their types."""
    document = json.loads(encode(message, Envelope.CLOUDEVENTS))

    assert all(re.fullmatch("[a-z0-9]{1,20}", name) for name in document)
    attributes = {name: value for name, value in document.items() if name != "data"}
    assert all(isinstance(value, str) and value for value in attributes.values())
    assert {"id", "source", "specversion", "type"} <= set(attributes)
    assert re.fullmatch(r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-F]{2})+", document["source"])
    if "time" in document:
        assert datetime.fromisoformat(document["time"]).tzinfo is not None


@pytest.mark.parametrize("envelope", Envelope)
def test_a_dead_letter_says_that_it_comes_late(envelope: Envelope):
    assert decode(encode(replace(ONE, replayed=True), envelope), envelope).replayed
    assert not decode(encode(ONE, envelope), envelope).replayed


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
        (
            encode(ONE, Envelope.CLOUDEVENTS).replace('"dataversion": "1"', '"dataversion": "2"'),
            Envelope.CLOUDEVENTS,
        ),
        (
            encode(ONE, Envelope.DEBEZIUM).replace('"format_version": 1', '"format_version": 2'),
            Envelope.DEBEZIUM,
        ),
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
