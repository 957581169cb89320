"""Messages of the log are read exactly, and damaged ones are refused with a code."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pgtrickle.capture.wal.buffer_rows import Fit, make_projection
from pgtrickle.capture.wal.collect import Collector, widen_xid
from pgtrickle.capture.wal.decode import decode
from pgtrickle.capture.wal.messages import (
    UNCHANGED,
    Begin,
    Commit,
    Delete,
    Insert,
    Relation,
    RelationColumn,
    Truncate,
    Update,
    Value,
)
from pgtrickle.capture.wal.slot import SlotState, check_slot
from pgtrickle.capture.wal.transactions import read_transactions
from pgtrickle.errors import SlotLostError, TrickleError, WalGapError, WalMessageError
from pgtrickle.model.capture.lsn import Lsn, format_lsn, parse_lsn
from tests.capture import wal_messages as write

OIDS = st.integers(0, 2**32 - 1)
LSNS = st.integers(0, 2**63)
TEXTS = st.binary(max_size=40)
NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
OLD_ROWS = st.lists(st.none() | TEXTS, max_size=6)
NEW_ROWS = st.lists(st.none() | TEXTS | st.just(UNCHANGED), max_size=6)
COLUMNS = st.lists(st.tuples(NAMES, OIDS), max_size=6, unique_by=lambda column: column[0])


def _plain(row: Sequence[Value]) -> bool:
    return all(isinstance(value, bytes) for value in row)


@given(OIDS, NEW_ROWS)
def test_insert_is_read_as_written(relid: int, new: list[Value]):
    assert decode(write.insert(relid, *new)) == Insert(relid, new, _plain(new))


@given(OIDS, st.data(), st.sampled_from([b"O", b"K"]))
def test_update_is_read_as_written(relid: int, data: st.DataObject, kind: bytes):
    new = data.draw(NEW_ROWS)
    width = len(new)
    old = data.draw(st.none() | st.lists(st.none() | TEXTS, min_size=width, max_size=width))

    decoded = decode(write.update(relid, old, new, kind))

    plain = old is not None and _plain(old) and _plain(new)
    assert decoded == Update(relid, old, old is not None and kind == b"O", new, plain)


@given(OIDS, OLD_ROWS, st.sampled_from([b"O", b"K"]))
def test_delete_is_read_as_written(relid: int, old: list[Value], kind: bytes):
    decoded = decode(write.delete(relid, *old, kind=kind))

    assert decoded == Delete(relid, old, kind == b"O", _plain(old))


@given(st.lists(OIDS, max_size=5), st.integers(0, 3))
def test_truncate_is_read_as_written(relids: list[int], options: int):
    decoded = decode(write.truncate(*relids, options=options))

    assert decoded == Truncate(tuple(relids), bool(options & 1), bool(options & 2))


@given(OIDS, NAMES, NAMES, COLUMNS)
def test_relation_is_read_as_written(
    relid: int, schema: str, name: str, columns: list[tuple[str, int]]
):
    decoded = decode(write.relation(relid, schema, name, columns))

    listed = tuple(RelationColumn(column, oid, -1, key=True) for column, oid in columns)
    assert decoded == Relation(relid, schema or "pg_catalog", name, "f", listed)


@given(LSNS, OIDS)
def test_begin_and_commit_are_read_as_written(lsn: int, xid: int):
    assert decode(write.begin(lsn, xid)) == Begin(Lsn(lsn), 0, xid)
    assert decode(write.commit(lsn, lsn + 8)) == Commit(Lsn(lsn), Lsn(lsn + 8), 0)


WELL_FORMED = (
    write.begin(100, 7),
    write.relation(16384, "public", "orders", [("id", 20), ("note", 25)]),
    write.insert(16384, b"1", b"one"),
    write.update(16384, [b"1", b"one"], [b"2", UNCHANGED]),
    write.update(16384, None, [b"2", None]),
    write.delete(16384, b"2", None, kind=b"K"),
    write.truncate(16384, options=3),
    b"Y" + bytes([0, 0, 64, 0]) + b"public\0mood\0",
    b"O" + bytes(8) + b"elsewhere\0",
    b"M" + bytes([1]) + bytes(8) + b"prefix\0" + bytes([0, 0, 0, 2]) + b"hi",
    write.commit(100, 120),
)


@pytest.mark.parametrize("message", WELL_FORMED, ids=lambda message: chr(message[0]))
def test_message_cut_short_anywhere_is_refused(message: bytes):
    decode(message)

    for length in range(len(message)):
        with pytest.raises(WalMessageError):
            decode(message[:length])


@pytest.mark.parametrize("message", WELL_FORMED, ids=lambda message: chr(message[0]))
def test_message_with_a_byte_too_many_is_refused(message: bytes):
    with pytest.raises(WalMessageError):
        decode(message + b"n")


@pytest.mark.parametrize(
    "message",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"S" + bytes(20), id="streamed transaction, which was not asked for"),
        pytest.param(b"INSERT" + bytes(20), id="a longer word that begins like an action"),
        pytest.param(b"i" + write.insert(1, b"1")[1:], id="another case"),
        pytest.param(write.insert(1, b"1").replace(b"t", b"b"), id="binary value"),
        pytest.param(b"I\0\0\0\1O" + write.row([b"1"]), id="insert with an old image"),
        pytest.param(b"D\0\0\0\1N" + write.row([b"1"]), id="delete with a new image"),
        pytest.param(write.delete(1, UNCHANGED), id="old image with a value left out"),
        pytest.param(write.update(1, [b"1"], [b"1", b"2"]), id="images of different width"),
        pytest.param(b"I\0\0\0\1N\xff\xff", id="65535 columns"),
        pytest.param(b"I\0\0\0\1N\0\1t\xff\xff\xff\xff", id="a value of 4 GB"),
        pytest.param(b"T\xff\xff\xff\xff\0", id="4 billion tables"),
        pytest.param(write.truncate(1, options=4), id="option of the future"),
        pytest.param(write.relation(1, "s", "t", [("a", 1), ("a", 2)]), id="one name twice"),
        pytest.param(write.relation(1, "s", "t", [], identity="x"), id="identity of the future"),
        pytest.param(write.relation(1, "s", "t", []).replace(b"s\0", b"\xff\0"), id="not UTF-8"),
        pytest.param(b"C\1" + bytes(24), id="commit with flags"),
    ],
)
def test_hostile_message_is_refused(message: bytes):
    with pytest.raises(WalMessageError):
        decode(message)


@given(st.binary(max_size=200))
@example(b"R\0\0\0\1a\0b\0f\0\1")
def test_any_bytes_give_a_message_or_the_coded_error(data: bytes):
    assert _outcome(decode, data) in {"message", "ST321"}


@given(st.integers(0, len(WELL_FORMED) - 1), st.data())
def test_damaged_message_gives_a_message_or_the_coded_error(which: int, data: st.DataObject):
    message = bytearray(WELL_FORMED[which])
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(message) - 1))
        message[place] = data.draw(st.integers(0, 255))

    assert _outcome(decode, bytes(message)) in {"message", "ST321"}


@given(st.randoms(use_true_random=False), st.integers(0, 6))
def test_shuffled_and_damaged_streams_end_with_a_code_or_whole(source: random.Random, damage: int):
    messages = list(WELL_FORMED) * 2
    for _ in range(damage):
        place = source.randrange(len(messages))
        match source.randrange(3):
            case 0:
                messages[place] = source.randbytes(source.randrange(30))
            case 1:
                messages.insert(place, messages[source.randrange(len(messages))])
            case _:
                del messages[place]

    outcome = _outcome(_collect, messages)

    assert outcome in {"message", "ST321", "ST323"}


def _collect(messages: list[bytes]) -> Collector:
    collector = _collector()
    for step in read_transactions(messages):
        collector.take(step)
    return collector


def _collector(position: int = 0, since: int = 0, recent_xid: int = 1000) -> Collector:
    return Collector({16384: Lsn(since)}, _fit, Lsn(position), recent_xid)


def _fit(shape: Relation) -> Fit:
    present = {column.name for column in shape.columns}
    columns = tuple(name for name in ("id", "note") if name in present)
    return Fit(columns, complete=len(columns) == 2)


def _outcome(read: Callable[..., object], argument: object) -> str:
    try:
        read(argument)
    except TrickleError as error:
        return error.code
    return "message"


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param(WELL_FORMED[2:3], id="change outside a transaction"),
        pytest.param([WELL_FORMED[0], WELL_FORMED[0]], id="transaction in a transaction"),
        pytest.param([WELL_FORMED[-1]], id="end without a beginning"),
        pytest.param([WELL_FORMED[0]], id="beginning without an end"),
        pytest.param([write.begin(1, 7), write.commit(2, 3)], id="end of another transaction"),
        pytest.param([write.begin(5, 7), write.commit(5, 4)], id="end before the commit"),
        pytest.param(
            [write.begin(5, 7), write.commit(5, 6), write.begin(4, 8), write.commit(4, 9)],
            id="commits out of order",
        ),
        pytest.param(
            [write.begin(5, 7), write.insert(1, b"1"), write.commit(5, 6)], id="shape not told"
        ),
    ],
)
def test_stream_out_of_order_is_refused(messages: list[bytes]):
    with pytest.raises(WalMessageError):
        _collect(list(messages))


ORDERS = Relation(
    16384,
    "public",
    "orders",
    "f",
    tuple(
        RelationColumn(name, oid, -1, key=True)
        for name, oid in [("id", 20), ("n", 23), ("note", 25)]
    ),
)
IDS_AND_NOTES = make_projection(ORDERS, Fit(("note", "id")))


def _lines(change: Insert | Update | Delete) -> list[bytes]:
    return list(IDS_AND_NOTES.lines(b"9", change))


def test_lines_hold_the_captured_columns_in_the_buffers_order():
    assert IDS_AND_NOTES.columns == ("note", "id")
    assert _lines(Insert(16384, [b"1", b"5", b"x"])) == [b"9\t1\tx\t1"]
    assert _lines(Delete(16384, [b"1", b"5", None], old_complete=True)) == [b"9\t-1\t\x01\t1"]
    assert IDS_AND_NOTES.marker(b"9") == b"9\t0\t\x01\t\x01"


def test_update_is_a_removal_and_an_addition():
    update = Update(16384, [b"1", b"5", b"x"], old_complete=True, new=[b"2", b"5", b"x"])

    assert _lines(update) == [b"9\t-1\tx\t1", b"9\t1\tx\t2"]


def test_update_of_other_columns_leaves_no_line():
    assert (
        _lines(Update(16384, [b"1", b"5", b"x"], old_complete=True, new=[b"1", b"6", b"x"])) == []
    )


def test_value_left_out_is_the_old_one():
    update = Update(16384, [b"1", b"5", b"long"], old_complete=True, new=[b"2", b"5", UNCHANGED])

    assert _lines(update) == [b"9\t-1\tlong\t1", b"9\t1\tlong\t2"]
    assert (
        _lines(Update(16384, [b"1", b"5", b"long"], old_complete=True, new=[b"1", b"5", UNCHANGED]))
        == []
    )


@pytest.mark.parametrize(
    "change",
    [
        Update(16384, None, old_complete=False, new=[b"1", b"5", b"x"]),
        Update(16384, [b"1", None, None], old_complete=False, new=[b"2", b"5", b"x"]),
        Delete(16384, [b"1", None, None], old_complete=False),
    ],
    ids=["no old image", "update with a key", "delete with a key"],
)
def test_old_image_that_is_not_complete_is_a_gap(change: Update | Delete):
    with pytest.raises(WalGapError) as caught:
        _lines(change)

    assert caught.value.source_relid == 16384


@pytest.mark.parametrize(
    "row", [[b"1", b"5"], [b"1", b"5", b"x", b"y"], [b"1", b"5", UNCHANGED], [None]], ids=len
)
def test_row_that_does_not_fit_its_table_is_refused(row: list[Value]):
    plain = _plain(row)
    with pytest.raises(WalMessageError):
        _lines(Insert(16384, row, plain))


@pytest.mark.parametrize("row", [[b"1", b"5"], [b"1", b"5", b"x", b"y"], [None]], ids=len)
def test_changed_row_that_does_not_fit_its_table_is_refused(row: list[Value]):
    plain = _plain(row)
    with pytest.raises(WalMessageError):
        _lines(Update(16384, row, old_complete=True, new=row, plain=plain))
    with pytest.raises(WalMessageError):
        _lines(Delete(16384, row, old_complete=True, plain=plain))


@pytest.mark.parametrize("plain", [True, False])
def test_both_ways_of_writing_lines_agree(plain: bool):  # noqa: FBT001 - a parameter
    old, new = [b"1", b"5", b"x\ty"], [b"2", b"6", b"z"]

    assert _lines(Insert(16384, old, plain)) == [b"9\t1\tx\\ty\t1"]
    assert _lines(Delete(16384, old, old_complete=True, plain=plain)) == [b"9\t-1\tx\\ty\t1"]
    assert _lines(Update(16384, old, old_complete=True, new=new, plain=plain)) == [
        b"9\t-1\tx\\ty\t1",
        b"9\t1\tz\t2",
    ]
    assert _lines(Update(16384, old, old_complete=True, new=list(old), plain=plain)) == []


@given(st.lists(st.none() | st.binary(max_size=12).map(lambda text: text.replace(b"\0", b"")),
                min_size=3, max_size=3))  # fmt: skip
@example([b"\x01", b"", None])
@example([b"\\N", b"\\.", b"\t\n\r"])
def test_a_line_says_what_the_values_were(values: list[bytes | None]):
    projection = make_projection(ORDERS, Fit(("id", "n", "note")))

    decoded = decode(write.insert(16384, *values))
    assert isinstance(decoded, Insert)
    [line] = projection.lines(b"9", decoded)

    assert b"\n" not in line
    assert [_unescape(part) for part in line.split(b"\t")] == [b"9", b"1", *values]


def _unescape(field: bytes) -> bytes | None:
    """Read a field as COPY does."""
    if field == b"\x01":
        return None
    found, rest = b"", field
    escapes = {b"t": b"\t", b"n": b"\n", b"r": b"\r", b"\\": b"\\"}
    while rest:
        if rest[:1] != b"\\":
            found, rest = found + rest[:1], rest[1:]
        elif rest[1:4] == b"001":
            found, rest = found + b"\x01", rest[4:]
        else:
            found, rest = found + escapes[rest[1:2]], rest[2:]
    return found


def _transaction(lsn: int, xid: int, *changes: bytes) -> list[bytes]:
    shape = write.relation(16384, "public", "orders", [("id", 20), ("note", 25)])
    return [write.begin(lsn, xid), shape, *changes, write.commit(lsn, lsn + 10)]


def test_what_the_buffers_hold_and_what_triggers_captured_is_not_taken_again():
    messages = [
        *_transaction(100, 7, write.insert(16384, b"1", b"in the buffer")),
        *_transaction(200, 8, write.insert(16384, b"2", b"by trigger")),
        *_transaction(300, 9, write.insert(16384, b"3", b"new"), write.truncate(16384, 5000)),
    ]
    messages.insert(-1, write.relation(5000, "public", "other", [("id", 20)]))
    messages[-3], messages[-2] = messages[-2], messages[-3]
    collector = _collector(position=150, since=250)

    for step in read_transactions(messages):
        collector.take(step)

    [lines] = collector.give().values()
    assert lines == [b"9\t1\t3\tnew", b"9\t0\t\x01\t\x01"]
    assert (collector.end, collector.changes, collector.pending_lines) == (310, 2, 0)


@pytest.mark.parametrize(
    ("xid", "recent", "full"),
    [
        (5, 9, 5),
        (8, 9, 8),
        (2**32 - 1, 2**32 + 3, 2**32 - 1),
        (3, 2**33 + 4, 2**33 + 3),
        (4, 2**33 + 4, 2**33 + 4),
        (5, 2**32 - 2, 2**32 + 5),
    ],
)
def test_xid_gets_the_epoch_it_began_in(xid: int, recent: int, full: int):
    assert widen_xid(xid, recent) == full


def test_xid_that_has_not_begun_is_refused():
    with pytest.raises(WalMessageError):
        widen_xid(2**32 - 5, 9)


@given(LSNS)
def test_positions_are_printed_as_they_are_read(lsn: int):
    assert parse_lsn(format_lsn(Lsn(lsn))) == lsn


@pytest.mark.parametrize("text", ["", "1", "1/", "/1", "1/2/3", "G/1", "123456789/1", " 1/1"])
def test_text_that_is_no_position_is_refused(text: str):
    with pytest.raises(ValueError, match="not a position"):
        parse_lsn(text)


def _slot_state(**changed: object) -> SlotState:
    state = SlotState("pgtrickle_5", "pgoutput", True, "reserved", Lsn(100), 0)  # noqa: FBT003
    return replace(state, **changed)  # type: ignore[arg-type]


def test_slot_that_delivers_all_is_taken():
    assert check_slot(_slot_state(), "pgtrickle_5", Lsn(100)) == _slot_state()
    check_slot(_slot_state(wal_status="extended"), "pgtrickle_5", Lsn(101))


@pytest.mark.parametrize(
    "state",
    [
        pytest.param(None, id="gone"),
        pytest.param(_slot_state(plugin="test_decoding"), id="another plugin"),
        pytest.param(_slot_state(own_database=False), id="another database"),
        pytest.param(_slot_state(wal_status="lost"), id="the log is gone"),
        pytest.param(_slot_state(confirmed=Lsn(101)), id="moved by someone else"),
    ],
)
def test_slot_that_may_not_deliver_all_is_lost(state: SlotState | None):
    with pytest.raises(SlotLostError):
        check_slot(state, "pgtrickle_5", Lsn(100))
