"""Read and write YAML: plain values alone, and texts of several lines as they are."""

from __future__ import annotations

import re
from typing import Any

import yaml

from pgtrickle.errors import DumpDamagedError

_OTHER_BREAKS = re.compile("[\r\x85\u2028\u2029]")


_DEEPEST = 100


class _Writer(yaml.SafeDumper):  # type: ignore[misc]  # no type information
    """Writes no references between parts, and SQL line by line where YAML can."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the library's signature
        return True


def _write_text(writer: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    # Other line breaks than \n come back as \n, unless they are escaped.
    style = '"' if _OTHER_BREAKS.search(text) else "|" if "\n" in text else None
    return writer.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Writer.add_representer(str, _write_text)


class _Reader(yaml.SafeLoader):  # type: ignore[misc]  # no type information
    """Reads no references: a few of them can stand for billions of parts."""

    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("references (*) are not read")
        if self._depth >= _DEEPEST:
            raise yaml.YAMLError(f"it is nested more than {_DEEPEST} deep")
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002 - the library's signature
        found: dict[Any, Any] = super().construct_mapping(node, deep=deep)
        if len(found) < len(node.value):
            line = node.start_mark.line + 1
            raise yaml.YAMLError(f"an entry stands twice in the mapping that begins in line {line}")
        return found


def write_yaml(value: object) -> str:
    r"""Write a value.

    >>> print(write_yaml({"name": "public.revenue", "query": "SELECT 1\n  AS one"}))
    name: public.revenue
    query: |-
      SELECT 1
        AS one
    <BLANKLINE>
    """
    text = yaml.dump(value, Dumper=_Writer, sort_keys=False, allow_unicode=True, width=120)
    return str(text)


def parse_yaml(text: str) -> object:
    r"""Read a value; raise ValueError if the text is not YAML.

    >>> parse_yaml("a: [1, '2']")
    {'a': [1, '2']}
    >>> parse_yaml("a: 1\na: 2")
    Traceback (most recent call last):
    ...
    ValueError: an entry stands twice in the mapping that begins in line 1
    """
    try:
        return _Reader(text).get_single_data()
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise ValueError(str(error)) from error


def read_yaml(text: str, file: str) -> object:
    """Read a value of a dump; raise ST223 if the text is not YAML."""
    try:
        return parse_yaml(text)
    except ValueError as error:
        raise DumpDamagedError(
            f"{file} cannot be read as YAML",
            detail=str(error),
            hint="Give a file that pgtrickle dump --format yaml has written.",
        ) from error
