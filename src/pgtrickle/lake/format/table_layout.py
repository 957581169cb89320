"""The columns of the lake table of a stream table, as far as they depend on the data.

``numeric`` without declared digits becomes a decimal with the digits after the point that its
values have; if a later value needs more, or does not fit at all, the columns are chosen again.
"""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import Connection

from pgtrickle.lake.format.columns import LakeColumn, number_columns
from pgtrickle.lake.format.tables import LakeTable, StoredColumn
from pgtrickle.lake.format.types import LakeType, is_unbounded, kept_as, lake_type, text_type
from pgtrickle.model.sql_type import Column
from pgtrickle.model.text.names import quote_identifier
from pgtrickle.model.text.trusted import trusted

_USUAL_SCALE = 6  # more digits come from a division, whose number of digits varies
_ROOM = 20


def choose_columns(
    connection: Connection, columns: Sequence[Column], rows: str, first_id: int = 1
) -> tuple[LakeColumn, ...]:
    """Choose columns that hold every value of the relation ``rows`` exactly."""
    scales = _find_scales(connection, columns, rows)
    types = [lake_type(column.type, scales.get(column.name, 0)) for column in columns]
    fitting = _find_fitting(connection, columns, types, rows)
    named = [
        (column.name, type_ if fits else text_type(column.type))
        for column, type_, fits in zip(columns, types, fitting, strict=True)
    ]
    return number_columns(named, first_id)


def find_columns(table: LakeTable, columns: Sequence[Column]) -> tuple[LakeColumn, ...] | None:
    """Return the columns of a lake table; None if it has another shape."""
    if [one.name for one in table.columns] != [column.name for column in columns]:
        return None
    found = []
    for stored, column in zip(table.columns, columns, strict=True):
        type_ = _find_type(stored, column)
        if type_ is None:
            return None
        found.append(LakeColumn(stored.id, stored.name, type_, stored.element_id))
    return tuple(found)


def all_fit(connection: Connection, columns: Sequence[LakeColumn], rows: str) -> bool:
    """Tell whether the columns of a lake table hold every value of the relation ``rows``."""
    return all(_find_fitting(connection, columns, [column.type for column in columns], rows))


def _find_type(stored: StoredColumn, column: Column) -> LakeType | None:
    type_ = kept_as(stored.type, column.type)
    if type_ is None or type_.repeated != (stored.element_id is not None):
        return None
    return type_ if not type_.repeated or type_.name == stored.element_type else None


def _find_scales(connection: Connection, columns: Sequence[Column], rows: str) -> dict[str, int]:
    open_ = [column.name for column in columns if is_unbounded(column.type)]
    if not open_:
        return {}
    asked = ", ".join(f"max(scale({quote_identifier(name)}))" for name in open_)
    [found] = connection.execute(trusted(f"SELECT {asked} FROM {rows}")).fetchall()
    return {name: _with_room(scale or 0) for name, scale in zip(open_, found, strict=True)}


def _with_room(scale: int) -> int:
    """Leave room for the digits that later quotients may have.

    >>> _with_room(2), _with_room(16), _with_room(60)
    (2, 20, 38)
    """
    return scale if scale <= _USUAL_SCALE else min(max(scale, _ROOM), 38)


def _find_fitting(
    connection: Connection,
    columns: Sequence[Column] | Sequence[LakeColumn],
    types: Sequence[LakeType],
    rows: str,
) -> list[bool]:
    limited = [number for number, type_ in enumerate(types) if type_.fits]
    fitting = [True] * len(types)
    if not limited:
        return fitting
    asked = ", ".join(
        f"bool_and({types[n].fits.replace('{v}', quote_identifier(columns[n].name))})"
        for n in limited
    )
    [found] = connection.execute(trusted(f"SELECT {asked} FROM {rows}")).fetchall()
    for number, fits in zip(limited, found, strict=True):
        fitting[number] = fits is not False
    return fitting
