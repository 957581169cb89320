"""Write a small project that runs, and make the tables that it reads."""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

import psycopg

from pgtrickle.errors import NameTakenError, SettingError
from pgtrickle.model.projects.findings import WrittenProject
from pgtrickle.model.text.trusted import trusted
from pgtrickle.service.lifecycle.definitions.files import write_text
from pgtrickle.service.runtime import Runtime

_EXAMPLE = "pgtrickle.service.projects.files.example"
_ENDINGS = (".yml", ".sql")


def write_example(path: Path) -> WrittenProject:
    """Write the example into a folder; none of its files may be there."""
    texts = {name: one.read_text() for name, one in _list_files(files(_EXAMPLE), "")}
    for name in texts:
        if (path / name).exists():
            raise SettingError(
                f"{path / name} exists already", hint="Give a folder that is new or empty."
            )
    for name, text in texts.items():
        try:
            (path / name).parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SettingError(
                f"{path} cannot be made: {error.strerror}", hint="Choose another folder."
            ) from error
        write_text(path / name, text)
    return WrittenProject(str(path), tuple(texts))


def make_sample_data(runtime: Runtime) -> None:
    """Make the tables that the example reads, and fill them."""
    text = files(_EXAMPLE).joinpath("sources.sql").read_text()
    with runtime.connection() as connection, connection.transaction():
        try:
            connection.execute(trusted(text))
        except psycopg.errors.DuplicateSchema as error:
            raise NameTakenError(
                'the schema "shop_data" exists already',
                hint="The tables of the example are there: leave --sample-data out.",
            ) from error


def _list_files(folder: Traversable, above: str) -> list[tuple[str, Traversable]]:
    found: list[tuple[str, Traversable]] = []
    for one in sorted(folder.iterdir(), key=lambda each: each.name):
        name = f"{above}{one.name}"
        if one.is_dir() and not one.name.startswith("_"):
            found += _list_files(one, f"{name}/")
        elif one.name.endswith(_ENDINGS):
            found.append((name, one))
    return found
