"""Values as JSON holds them exactly: what it has no form for becomes text."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date
from typing import Any

_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}  # as PostgreSQL writes them


def json_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row as JSON can hold it.

    >>> from decimal import Decimal
    >>> json_row({"n": 1, "total": Decimal("15.50"), "share": float("-inf")})
    {'n': 1, 'total': '15.50', 'share': '-Infinity'}
    """
    return {name: json_value(value) for name, value in row.items()}


def json_value(value: Any) -> Any:
    """Return a value as JSON can hold it.

    >>> json_value([date(2026, 1, 31), {"a": None}, (True, 0.5)])
    ['2026-01-31', {'a': None}, [True, 0.5]]
    """
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else _NOT_FINITE[str(value)]
        case bytes():
            return f"\\x{value.hex()}"
        case list() | tuple():
            return [json_value(one) for one in value]
        case Mapping():
            return json_row(value)
        case date():  # a datetime is one, too
            return value.isoformat()
        case _:
            return str(value)
