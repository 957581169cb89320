"""What the commands on projects have in common."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from pgtrickle.cli.documents import Document, error_document
from pgtrickle.model.projects.plan import FieldChange, ProjectStep

Folder = Annotated[
    Path, typer.Argument(help="Folder with pgtrickle.yml.", show_default="this folder")
]
Target = Annotated[
    str | None,
    typer.Option("--target", "-t", help="Target of the project, such as dev or prod."),
]
Given = Annotated[
    list[str] | None,
    typer.Option("--var", metavar="NAME=VALUE", help="Value of a variable; may be repeated."),
]


def read_variables(given: list[str] | None) -> dict[str, str]:
    """Return the variables by name.

    >>> read_variables(["since=2026-01-01", "rate="])
    {'since': '2026-01-01', 'rate': ''}
    """
    found = {}
    for one in given or ():
        name, sign, value = one.partition("=")
        if not sign or not name:
            raise typer.BadParameter(f"write NAME=VALUE, not {one}", param_hint="--var")
        found[name.strip()] = value
    return found


def change_documents(changes: Iterable[FieldChange]) -> list[Document]:
    """Describe the entries that differ."""
    return [{"field": one.field, "before": one.before, "after": one.after} for one in changes]


def step_document(step: ProjectStep) -> Document:
    """Describe a step of a plan."""
    return {
        "name": str(step.name),
        "action": step.action,
        "file": step.file,
        "changes": change_documents(step.changes),
        "drifted": step.drifted,
        "estimated_ms": None if step.estimated_ms is None else round(step.estimated_ms, 1),
        "locks": list(step.locks),
        "notes": list(step.notes),
        "problems": [error_document(one)["error"] for one in step.problems],
    }
