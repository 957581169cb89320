"""Write messages of pgoutput, for tests of what reads them."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from pgtrickle.capture.wal.messages import UNCHANGED, Value


def begin(commit_lsn: int, xid: int, committed_at: int = 0) -> bytes:
    return b"B" + struct.pack(">QqI", commit_lsn, committed_at, xid)


def commit(commit_lsn: int, end_lsn: int, committed_at: int = 0) -> bytes:
    return b"C" + struct.pack(">BQQq", 0, commit_lsn, end_lsn, committed_at)


def relation(
    relid: int, schema: str, name: str, columns: Sequence[tuple[str, int]], identity: str = "f"
) -> bytes:
    listed = b"".join(
        b"\x01" + column.encode() + b"\0" + struct.pack(">Ii", oid, -1) for column, oid in columns
    )
    names = schema.encode() + b"\0" + name.encode() + b"\0"
    return (
        b"R"
        + struct.pack(">I", relid)
        + names
        + identity.encode()
        + struct.pack(">H", len(columns))
        + listed
    )


def insert(relid: int, *new: Value) -> bytes:
    return b"I" + struct.pack(">I", relid) + b"N" + row(new)


def update(
    relid: int, old: Sequence[Value] | None, new: Sequence[Value], kind: bytes = b"O"
) -> bytes:
    before = b"" if old is None else kind + row(old)
    return b"U" + struct.pack(">I", relid) + before + b"N" + row(new)


def delete(relid: int, *old: Value, kind: bytes = b"O") -> bytes:
    return b"D" + struct.pack(">I", relid) + kind + row(old)


def truncate(*relids: int, options: int = 0) -> bytes:
    return b"T" + struct.pack(f">IB{len(relids)}I", len(relids), options, *relids)


def row(values: Sequence[Value]) -> bytes:
    return struct.pack(">H", len(values)) + b"".join(map(_value, values))


def _value(value: Value) -> bytes:
    if value is None:
        return b"n"
    if value is UNCHANGED:
        return b"u"
    assert isinstance(value, bytes)
    return b"t" + struct.pack(">I", len(value)) + value
