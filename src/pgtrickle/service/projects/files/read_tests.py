"""Read the tests of a stream table as its file says them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pgtrickle.errors import ProjectFileError
from pgtrickle.model.projects.project import ProjectTest
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.service.projects.files.shape import TESTS


def read_tests(
    said: Sequence[Mapping[str, Any]],
    file: str,
    relation: Callable[[str], QualifiedName],
    render: Callable[[str], str],
) -> tuple[ProjectTest, ...]:
    """Return the tests, each under a name of its own."""
    found: dict[str, ProjectTest] = {}
    for one in said:
        for test in _read(one, relation, render):
            if test.name in found:
                raise ProjectFileError(
                    f'{file}: two tests are called "{test.name}"',
                    hint="Give one of them another name.",
                )
            found[test.name] = test
    return tuple(found.values())


def _read(
    said: Mapping[str, Any],
    relation: Callable[[str], QualifiedName],
    render: Callable[[str], str],
) -> list[ProjectTest]:
    [kind] = [one for one in TESTS if one in said]
    facts, warns, name = said[kind], said.get("severity") == "warn", said.get("name")
    if kind == "not_null":  # each column is a statement of its own
        columns = facts if isinstance(facts, list) else [facts]
        return [
            ProjectTest(_call(name, kind, one, alone=len(columns) == 1), kind, warns, (one,))
            for one in columns
        ]
    if kind == "unique":
        together = tuple(facts) if isinstance(facts, list) else (facts,)
        return [ProjectTest(_call(name, kind, *together), kind, warns, together)]
    if kind == "query":
        return [ProjectTest(name or "query", kind, warns, query=render(facts).strip())]
    column = facts["column"]
    called = _call(name, kind, column)
    if kind == "accepted_values":
        return [ProjectTest(called, kind, warns, (column,), tuple(facts["values"]))]
    to = relation(facts["to"])
    return [ProjectTest(called, kind, warns, (column,), to=to, field=facts["field"])]


def _call(name: str | None, kind: str, *columns: str, alone: bool = True) -> str:
    if name is not None and alone:
        return name
    return "_".join([name or kind, *columns])
