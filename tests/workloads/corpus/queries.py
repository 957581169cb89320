"""Reads the corpus: one file a style, in which a line ``-- name: meaning`` begins each query."""

from __future__ import annotations

import re
from pathlib import Path

_HEAD = re.compile(r"^-- (?P<name>[a-z][a-z0-9_]*): (?P<meaning>.+)$", re.MULTILINE)


def read_styles(directory: Path) -> dict[str, dict[str, str]]:
    """Return the queries by style and by name; a name begins with its style."""
    return {
        path.stem: {f"{path.stem}_{name}": text for name, text in _split(path.read_text()).items()}
        for path in sorted(directory.glob("*.sql"))
    }


def _split(text: str) -> dict[str, str]:
    heads = list(_HEAD.finditer(text))
    ends = [head.start() for head in heads[1:]] + [len(text)]
    queries = {
        head["name"]: text[head.start() : end].strip().removesuffix(";")
        for head, end in zip(heads, ends, strict=True)
    }
    if len(queries) < len(heads):
        raise ValueError("two queries of a style have the same name")
    return queries
