"""Decode one message of pgoutput, protocol version 1, exactly.

A message is taken only if every byte of it is accounted for: each length lies inside it, each
flag is one that the protocol knows, and nothing is left over.  Any other message is refused
with ST321; the meaning of bytes is never guessed.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from pgtrickle.capture.wal.messages import (
    UNCHANGED,
    Begin,
    Commit,
    Delete,
    Emitted,
    Insert,
    Message,
    Origin,
    Relation,
    RelationColumn,
    Row,
    Truncate,
    Type,
    Update,
    Value,
)
from pgtrickle.errors import WalMessageError
from pgtrickle.model.capture.lsn import Lsn

_BEGIN = struct.Struct(">xQqI")
_COMMIT = struct.Struct(">xBQQq")
_RELID = struct.Struct(">xI")
_UINT64 = struct.Struct(">Q")
_UINT32 = struct.Struct(">I")
_COLUMN_TYPE = struct.Struct(">Ii")
_EMITTED = struct.Struct(">xBQ")
_TRUNCATE = struct.Struct(">xIB")

_MAX_COLUMNS = 1664  # PostgreSQL's own limit for a row of any kind
_TOO_WIDE = "more columns than a table can have"
_NEW, _KEY, _OLD = ord("N"), ord("K"), ord("O")
_TEXT, _NULL, _TOAST = ord("t"), ord("n"), ord("u")
_IDENTITIES = frozenset("dnfi")
# The headers of texts of less than 256 bytes: looking one up is faster than unpacking it.
_SHORT_TEXT = {bytes([_TEXT, 0, 0, 0, length]): length for length in range(256)}
_OLD_KINDS = frozenset({_OLD, _KEY})
_ROW_AT = _RELID.size


def decode(data: bytes) -> Message:
    """Decode one message.

    >>> decode(b"I" + bytes([0, 0, 0, 7]) + b"N" + bytes([0, 2]) + b"t" + bytes([0, 0, 0, 1]) + b"5n")
    Insert(relid=7, new=[b'5', None], plain=False)
    >>> decode(b"I" + bytes([0, 0, 0, 7]) + b"N" + bytes([0, 2]) + b"t")
    Traceback (most recent call last):
    pgtrickle.errors.WalMessageError: could not decode a message of the log: Insert
    """  # noqa: E501 - bytes of one message
    try:
        kind, decoder = _DECODERS[data[0]]
    except (IndexError, KeyError):
        raise WalMessageError(
            "could not decode a message of the log: its kind is not known",
            detail=_excerpt(data),
            hint=_HINT,
        ) from None
    try:
        return decoder(data)
    except (struct.error, IndexError, ValueError) as error:
        raise WalMessageError(
            f"could not decode a message of the log: {kind}",
            detail=f"{error}; {_excerpt(data)}",
            hint=_HINT,
        ) from error


_HINT = "Check that the slot's plugin is pgoutput: pgtrickle doctor."


def _excerpt(data: bytes) -> str:
    return f"{len(data)} bytes: {data[:32].hex()}"


def _begin(data: bytes) -> Begin:
    lsn, committed_at, xid = _BEGIN.unpack(data)
    return Begin(Lsn(lsn), committed_at, xid)


def _commit(data: bytes) -> Commit:
    flags, commit_lsn, end_lsn, committed_at = _COMMIT.unpack(data)
    if flags:
        raise ValueError("flags that no version has")
    return Commit(Lsn(commit_lsn), Lsn(end_lsn), committed_at)


def _origin(data: bytes) -> Origin:
    (lsn,) = _UINT64.unpack_from(data, 1)
    name, at = _string(data, 9)
    _check_end(data, at)
    return Origin(Lsn(lsn), name)


def _type(data: bytes) -> Type:
    (oid,) = _RELID.unpack_from(data)
    schema, at = _string(data, _ROW_AT)
    name, at = _string(data, at)
    _check_end(data, at)
    return Type(oid, schema or "pg_catalog", name)


def _relation(data: bytes) -> Relation:
    (relid,) = _RELID.unpack_from(data)
    schema, at = _string(data, _ROW_AT)
    name, at = _string(data, at)
    identity = chr(data[at])
    if identity not in _IDENTITIES:
        raise ValueError("a replica identity that no version has")
    count = _count(data, at + 1)
    at += 3
    columns = []
    for _ in range(count):
        flags = data[at]
        if flags > 1:
            raise ValueError("flags that no version has")
        column, at = _string(data, at + 1)
        oid, modifier = _COLUMN_TYPE.unpack_from(data, at)
        at += _COLUMN_TYPE.size
        columns.append(RelationColumn(column, oid, modifier, bool(flags)))
    _check_end(data, at)
    if len({column.name for column in columns}) != count:
        raise ValueError("two columns of one name")
    return Relation(relid, schema or "pg_catalog", name, identity, tuple(columns))


def _insert(data: bytes) -> Insert:
    if data[_ROW_AT] != _NEW:
        raise ValueError("an image that no version has")
    row, at, plain = _row(data, _ROW_AT + 1)
    if at != len(data):
        raise ValueError("bytes left over or missing")
    return Insert(_relid(data), row, plain)


def _update(data: bytes) -> Update:
    kind, at = data[_ROW_AT], _ROW_AT
    old: Row | None = None
    old_plain = False
    if kind in _OLD_KINDS:
        old, at, old_plain = _row(data, at + 1)
        if not old_plain and UNCHANGED in old:
            raise ValueError("an old image with a value left out")
    if data[at] != _NEW:
        raise ValueError("an image that no version has")
    new, at, plain = _row(data, at + 1)
    if at != len(data):
        raise ValueError("bytes left over or missing")
    if old is not None and len(old) != len(new):
        raise ValueError("images of different width")
    return Update(_relid(data), old, kind == _OLD, new, plain and old_plain)


def _delete(data: bytes) -> Delete:
    kind = data[_ROW_AT]
    if kind not in _OLD_KINDS:
        raise ValueError("an image that no version has")
    old, at, plain = _row(data, _ROW_AT + 1)
    if not plain and UNCHANGED in old:
        raise ValueError("an old image with a value left out")
    if at != len(data):
        raise ValueError("bytes left over or missing")
    return Delete(_relid(data), old, kind == _OLD, plain)


def _truncate(data: bytes) -> Truncate:
    count, options = _TRUNCATE.unpack_from(data)
    if options > 3:
        raise ValueError("options that no version has")
    if len(data) != _TRUNCATE.size + 4 * count:
        raise ValueError("a number of tables that does not fit")
    return Truncate(
        struct.unpack_from(f">{count}I", data, _TRUNCATE.size), bool(options & 1), bool(options & 2)
    )


def _emitted(data: bytes) -> Emitted:
    flags, lsn = _EMITTED.unpack_from(data)
    if flags > 1:
        raise ValueError("flags that no version has")
    prefix, at = _string(data, _EMITTED.size)
    (length,) = _UINT32.unpack_from(data, at)
    at += 4
    _check_end(data, at + length)
    return Emitted(bool(flags), Lsn(lsn), prefix, data[at:])


def _row(data: bytes, at: int) -> tuple[Row, int, bool]:
    """Read a row; return its values, where it ends, and whether all of them are text.

    This runs once or twice per changed row, hence the few calls.
    """
    values: list[Value] = []
    append, short_text = values.append, _SHORT_TEXT.get
    plain = True
    count = data[at] << 8 | data[at + 1]
    if count > _MAX_COLUMNS:
        raise ValueError(_TOO_WIDE)
    at += 2
    for _ in range(count):
        start = at + 5
        length = short_text(data[at:start])
        if length is None and data[at] == _TEXT:
            length = int.from_bytes(data[at + 1 : start], "big")
        if length is not None:
            # A slice beyond the end is not an error in Python; then ``at`` is beyond it too, and
            # whatever looks at the next byte or checks the end refuses the message.
            at = start + length
            append(data[start:at])
            continue
        kind = data[at]
        plain = False
        at += 1
        if kind == _NULL:
            append(None)
        elif kind == _TOAST:
            append(UNCHANGED)
        else:
            raise ValueError("a kind of value that was not asked for")
    return values, at, plain


def _relid(data: bytes) -> int:
    return int.from_bytes(data[1:_ROW_AT], "big")


def _count(data: bytes, at: int) -> int:
    count = data[at] << 8 | data[at + 1]
    if count > _MAX_COLUMNS:
        raise ValueError(_TOO_WIDE)
    return count


def _string(data: bytes, at: int) -> tuple[str, int]:
    end = data.index(0, at)
    return data[at:end].decode(), end + 1


def _check_end(data: bytes, at: int) -> None:
    if at != len(data):
        raise ValueError("bytes left over" if at < len(data) else "bytes missing")


_DECODERS: dict[int, tuple[str, Callable[[bytes], Message]]] = {
    ord("B"): ("Begin", _begin),
    ord("C"): ("Commit", _commit),
    ord("O"): ("Origin", _origin),
    ord("R"): ("Relation", _relation),
    ord("Y"): ("Type", _type),
    ord("I"): ("Insert", _insert),
    ord("U"): ("Update", _update),
    ord("D"): ("Delete", _delete),
    ord("T"): ("Truncate", _truncate),
    ord("M"): ("Message", _emitted),
}
