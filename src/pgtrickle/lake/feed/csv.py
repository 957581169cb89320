"""Rows of the lake as the text that COPY reads, value for value the same.

A valid value is quoted and NULL is not, so the two stay apart.  Values that PostgreSQL's types hold
but Arrow cannot write, or the reverse, are refused.
"""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from pgtrickle.errors import LakeSourceError

_OPTIONS = pa.csv.WriteOptions(include_header=False, quoting_style="all_valid")
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896  # of the years 1 and 9999
_DAY = 86_400_000_000  # microseconds


def as_csv(batch: pa.RecordBatch) -> bytes:
    r"""Return the rows of a batch; raises ST705 for a value that cannot be carried exactly.

    >>> batch = pa.RecordBatch.from_pydict({"id": [1, 2], "v": ["", None], "b": [b"\0", None]})
    >>> as_csv(batch)
    b'"1","","\\x00"\n"2",,\n'
    """
    columns = [
        _carried(column, name)
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    ]
    sink = io.BytesIO()
    pa.csv.write_csv(pa.Table.from_arrays(columns, names=batch.schema.names), sink, _OPTIONS)
    return sink.getvalue()


def _carried(values: pa.Array, name: str) -> pa.Array:
    type_ = values.type
    if pa.types.is_binary(type_):
        texts = [None if one is None else "\\x" + one.hex() for one in values.to_pylist()]
        return pa.array(texts, pa.string())
    if pa.types.is_string(type_):
        if pc.any(pc.match_substring(values, "\0")).as_py():
            raise _refuse(name, "a character with the code 0, which PostgreSQL's text cannot hold")
    elif pa.types.is_date32(type_):
        _check_years(values.view(pa.int32()), name, 1)
    elif pa.types.is_timestamp(type_):
        _check_years(values.view(pa.int64()), name, _DAY)
    return values


def _check_years(values: pa.Array, name: str, unit: int) -> None:
    low, high = _FIRST_DAY * unit, (_LAST_DAY + 1) * unit - 1
    outside = pc.or_(pc.less(values, low), pc.greater(values, high))
    if pc.any(outside).as_py():
        raise _refuse(name, "a year before 1 or after 9999")


def _refuse(name: str, what: str) -> LakeSourceError:
    return LakeSourceError(
        f'the column "{name}" of the lake table holds {what}',
        hint="Change the value in the lake, or attach the table again without the column.",
    )
