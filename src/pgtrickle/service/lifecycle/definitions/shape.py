"""The shape that a dump must have: a file that somebody wrote is read with it, before it is used.

Only the shape: what the words mean, the verbs check that get them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pgtrickle.errors import DumpDamagedError
from pgtrickle.model.definitions.dump import PLACEHOLDER, STREAM_TABLE, VIEW
from pgtrickle.options.stream_table import OPTIONS
from pgtrickle.service.shapes import (
    COUNT,
    FLAG,
    NAMES,
    NUMBER,
    TEXT,
    WORDS,
    Keys,
    Shape,
    anything,
    list_of,
)

_HINT = "Dump the definitions again, or undo what was changed in the file."


def check_shape(value: object, shape: Shape, file: str) -> None:
    """Raise ST223 with everything that is wrong, unless a value has its shape."""
    if wrong := list(shape(value, "")):
        raise DumpDamagedError(
            f"{file} is not a dump of definitions, or is damaged",
            detail="\n".join(wrong[:20]),
            hint=_HINT,
        )


_OBJECT = Keys(
    {"kind": TEXT, "name": TEXT, "definition": TEXT},
    {"unique": FLAG, "comment": TEXT, "roles": NAMES, "enabled": TEXT},
)
_GRANT = Keys({"privileges": NAMES}, {"to": TEXT, "column": TEXT, "grantable": FLAG})
TABLE = Keys(
    {},
    {
        "comment": TEXT,
        "column_comments": list_of(Keys({"column": TEXT, "comment": TEXT}, {})),
        "storage_parameters": WORDS,
        "objects": list_of(_OBJECT),
        "replica_identity": TEXT,
        "replica_index": TEXT,
        "row_security": TEXT,
        "grants": list_of(_GRANT),
    },
)
ROWS = Keys({"file": TEXT, "rows": COUNT, "sha256": TEXT, "data_timestamp": TEXT}, {})
_ITEMS: Mapping[str, Keys] = {
    STREAM_TABLE: Keys(
        {
            "kind": TEXT,
            "name": TEXT,
            "query": TEXT,
            "search_path": TEXT,
            "initialize": FLAG,
            "status": TEXT,
            "paused": FLAG,
            "sources": NAMES,
            "uses": list_of(Keys({"kind": TEXT, "name": TEXT}, {})),
            "table": TABLE,
            "subscriptions": list_of(Keys({"channel": TEXT, "role": TEXT}, {})),
        },
        {
            "owner": TEXT,
            "rows": ROWS,
            "sla_s": NUMBER,
            "outbox": Keys({"retention_hours": NUMBER, "inline_threshold_rows": COUNT}, {}),
            # The verbs read their words.
            **{name: anything for name, one in OPTIONS.items() if one.kept},
        },
    ),
    VIEW: Keys({"kind": TEXT, "name": TEXT, "definition": TEXT, "table": TABLE}, {}),
    PLACEHOLDER: Keys({"kind": TEXT, "name": TEXT, "query": TEXT}, {}),
}


def item(value: object, place: str) -> Iterator[str]:
    """Accept a stream table, a view or a placeholder."""
    kind = value.get("kind") if isinstance(value, dict) else None
    if not isinstance(kind, str) or kind not in _ITEMS:
        yield f"{place or 'the file'}: a kind is missing: {', '.join(_ITEMS)}"
        return
    yield from _ITEMS[kind](value, place)


_HEAD: Mapping[str, Shape] = {
    "pgtrickle_dump": COUNT,
    "package": TEXT,
    "postgresql": COUNT,
    "database": TEXT,
    "complete": FLAG,
}
_WHOLE: Mapping[str, Shape] = {
    "settings": WORDS,
    "access": list_of(Keys({"role": TEXT, "level": TEXT}, {})),
    "lake_tables": list_of(
        Keys(
            {
                "name": TEXT,
                "lake_table": TEXT,
                "columns": NAMES,
                "catalog_schema": TEXT,
                "compaction_policy": TEXT,
            },
            {},
        )
    ),
    "gates": NAMES,
    "watermarks": list_of(Keys({"source": TEXT, "watermark": TEXT}, {})),
    "watermark_groups": list_of(
        Keys({"name": TEXT, "sources": NAMES, "tolerance_secs": NUMBER}, {})
    ),
    "refresh_groups": list_of(Keys({"name": TEXT, "members": NAMES, "isolation": TEXT}, {})),
}
ONE_FILE = Keys({**_HEAD, **_WHOLE, "items": list_of(item)}, {})
INDEX = Keys({**_HEAD, **_WHOLE, "files": NAMES}, {})
PART = Keys({"pgtrickle_dump": COUNT, "item": item, "complete": FLAG}, {})
