"""The arguments of requests: their names, types and sizes, checked before anything is done.

The procedures in the schema ``pgtrickle`` give them right; but anyone may write a request by hand,
and definitions of ``bulk_create`` come from users in any case.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any

from pgtrickle.errors import RequestRefusedError
from pgtrickle.model.text.lengths import LONGEST_VALUE, shorten
from pgtrickle.options.stream_table import OPTIONS

_TYPES: Mapping[str, tuple[type, ...]] = MappingProxyType(
    {name: one.json_types() for name, one in OPTIONS.items()}
    | {
        "name": (str,),
        "new_name": (str,),
        "target": (str,),
        "to_lake": (bool,),
        "source": (str,),
        "table": (str,),
        "query": (str,),
        "format": (str,),
        "cascade": (bool,),
        "full": (bool,),
        "with_analyze": (bool,),
        "wait_seconds": (int, float),
        "definitions": (list,),
        "names": (list,),
        "params": (dict,),
        "lake_table": (str,),
        "columns": (list,),
        "as_of": (str,),
        "max_rows": (int,),
        "catalog_schema": (str,),
        "to_schema": (str,),
        "from_schema": (str,),
        "compaction_policy": (str,),
        "group_name": (str,),
        "isolation": (str,),
        "action": (str,),
        "sla_s": (int, float),
        "retention_hours": (int, float),
        "inline_threshold_rows": (int,),
        "if_exists": (bool,),
        "schema": (str,),
        "max_retries": (int,),
        "with_dead_letter": (bool,),
        "with_stats": (bool,),
        "schedule_seconds": (int,),
        "aggregate_column": (str,),
        "sequence_column": (str,),
        "skip_dead_letters": (bool,),
        "priority_column": (str,),
        "urgent_from": (int, float),
    }
)


_MOST_BYTES = 1_000_000  # of all arguments of a request; the table takes a few more
_MOST_IN_A_LIST = 1_000
_MOST_DIGITS = 100


def read_arguments(verb: str, text: str) -> Any:
    """Read the arguments of a request, or raise ST605.

    PostgreSQL has read them already, but holds numbers that Python does not, and nests deeper.

    >>> read_arguments("drop", '{"name": "t"}')
    {'name': 't'}
    """
    try:
        return json.loads(text, parse_int=_read_int)
    except (ValueError, RecursionError):
        raise _refuse(verb, "a number has too many digits, or they nest too deeply") from None


def can_carry(arguments: Mapping[str, object]) -> bool:
    """Tell whether a request can carry arguments: they are no longer than it allows, and text.

    >>> can_carry({"query": "SELECT 1"}), can_carry({"query": chr(0)})
    (True, False)
    """
    texts = [(name, value) for name, value in arguments.items() if isinstance(value, str)]
    if any(chr(0) in value for _, value in texts):
        return False
    try:
        size = len(json.dumps(dict(arguments), ensure_ascii=False, allow_nan=False).encode())
    except ValueError:  # no number, or half of a surrogate pair
        return False
    long = (name for name, value in texts if len(value) > LONGEST_VALUE)
    return size <= _MOST_BYTES and all(name == "query" for name in long)


def _read_int(text: str) -> int:
    if len(text) > _MOST_DIGITS:
        raise ValueError("too many digits")
    return int(text)


def check_arguments(
    verb: str, given: object, *, required: Collection[str], optional: Collection[str]
) -> dict[str, Any]:
    """Return the arguments that are not NULL, or raise ST605.

    >>> given = {"name": "t", "cascade": None}
    >>> check_arguments("drop", given, required=["name"], optional=["cascade"])
    {'name': 't'}
    """
    if not isinstance(given, dict):
        raise _refuse(verb, "arguments are an object with their names as keys")
    found = {key: value for key, value in given.items() if value is not None}
    for name in required:
        if name not in found:
            raise _refuse(verb, f'"{name}" is missing')
    for name, value in found.items():
        if name not in required and name not in optional:
            known = ", ".join(sorted({*required, *optional}))
            raise _refuse(verb, f'"{shorten(name)}" is not among its arguments: {known}')
        if not isinstance(value, _TYPES[name]) or (
            isinstance(value, bool) and bool not in _TYPES[name]
        ):
            wanted = " or ".join(kind.__name__ for kind in _TYPES[name])
            raise _refuse(verb, f'"{name}" is of another type than {wanted}')
        if isinstance(value, list) and len(value) > _MOST_IN_A_LIST:
            raise _refuse(verb, f'"{name}" has more than {_MOST_IN_A_LIST} entries')
        if isinstance(value, str) and len(value) > LONGEST_VALUE and name != "query":
            raise _refuse(verb, f'"{name}" has more than {LONGEST_VALUE} characters')
    return found


def _refuse(verb: str, why: str) -> RequestRefusedError:
    return RequestRefusedError(
        f'the request "{shorten(verb)}" cannot be understood: {why}',
        hint="Use the procedure of this name in the schema pgtrickle.",
    )
