"""The files of a dump: one script, one YAML file, or a directory with a file per definition."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from pgtrickle.errors import DumpDamagedError, DumpTooNewError, SettingError
from pgtrickle.model.definitions.dump import FORM, Described, Dump, DumpedRows
from pgtrickle.service.lifecycle.definitions.shape import INDEX, ONE_FILE, PART, check_shape
from pgtrickle.service.lifecycle.definitions.yaml_text import read_yaml, write_yaml
from pgtrickle.service.shapes import Shape

INDEX_FILE = "dump.yaml"
SCRIPT_FILE = "dump.sql"
_NAME = re.compile(r"\d{4,}_[\w.-]*\.(?:yaml|rows)", re.ASCII)
_BEGINS_LIKE_SQL = re.compile(r"\s*(?:--|SET |CALL |SELECT |DO )")
_BLOCK = 1 << 20


def file_name(number: int, name: str, ending: str) -> str:
    """Name the file of a definition: what is in it says whose it is.

    >>> file_name(3, '"Daily Sales".revenue', "yaml")
    '0003_Daily_Sales_.revenue.yaml'
    """
    word = re.sub(r"[^A-Za-z0-9.]+", "_", name).strip("_.")[:60]
    return f"{number:04d}_{word}.{ending}"


def new_directory(path: Path) -> Path:
    """Make the directory of a dump; an existing one has to be empty."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        used = next(path.iterdir(), None)
    except OSError as error:
        raise _unwritable(path, error) from error
    if used is not None:
        raise SettingError(
            f"the directory {path} is not empty",
            hint="Give a directory that is new or empty, so that nothing of an older dump stays.",
        )
    return path


def write_text(path: Path, text: str) -> None:
    """Write a file as a whole: what was there stays until then."""
    beside = path.with_name(path.name + ".part")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        raise _unwritable(path, error) from error


def write_dump_files(path: Path, described: Described, head: Described, *, split: bool) -> None:
    """Write YAML: one file, or the index of a directory and a file per definition."""
    if not split:
        write_text(path, write_yaml({**head, **described, "complete": True}))
        return
    rest = {key: value for key, value in described.items() if key != "items"}
    files = []
    for number, item in enumerate(described["items"], 1):
        files.append(file_name(number, item["name"], "yaml"))
        part = {"pgtrickle_dump": FORM, "item": item, "complete": True}
        write_text(path / files[-1], write_yaml(part))
    # Last: without it, the directory is no dump.
    index = {**head, **rest, "files": files, "complete": True}
    write_text(path / INDEX_FILE, write_yaml(index))


def write_scripts(path: Path, parts: Sequence[tuple[str | None, str]], *, split: bool) -> None:
    """Write SQL: one script, or one per definition and one for psql that runs them in order."""
    if not split:
        write_text(path, "".join(script for _, script in parts))
        return
    files = []
    for number, (name, script) in enumerate(parts):
        files.append(file_name(number, name or "database", "sql"))
        write_text(path / files[-1], script)
    lines = ["-- Run it in a database with the sources: psql -X -v ON_ERROR_STOP=1 -f dump.sql"]
    write_text(path / SCRIPT_FILE, "\n".join([*lines, *(f"\\ir {one}" for one in files), ""]))


def read_dump_files(path: Path) -> Dump:
    """Read a dump, and check all of it: its form, its parts, and the files with rows.

    Raises ST223 if something is damaged, ST224 if a later version has written it.
    """
    if not path.is_dir():
        described = _read(path, ONE_FILE)
        items = described["items"]
    else:
        described = _read(path / INDEX_FILE, INDEX)
        items = [_read(_inside(path, one), PART)["item"] for one in described["files"]]
    plain = [{key: one for key, one in item.items() if key != "rows"} for item in items]
    rows = {
        item["name"]: _find_rows(path if path.is_dir() else path.parent, item["rows"])
        for item in items
        if "rows" in item
    }
    return Dump({**described, "items": plain}, rows)


def _read(path: Path, shape: Shape) -> Mapping[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise _damaged(path, "it is not text in UTF-8") from error
    except OSError as error:
        raise _damaged(path, str(error.strerror)) from error
    if _BEGINS_LIKE_SQL.match(text):
        raise DumpDamagedError(
            f"{path} is a script of SQL, which psql runs",
            hint=f"Run: psql -X -v ON_ERROR_STOP=1 -f {path}. Or write a dump that can be"
            " restored: pgtrickle dump --format yaml.",
        )
    value = read_yaml(text, str(path))
    if not isinstance(value, dict) or not isinstance(value.get("pgtrickle_dump"), int):
        raise _damaged(path, "it does not begin with pgtrickle_dump")
    if value["pgtrickle_dump"] > FORM:
        raise DumpTooNewError(
            f"{path} has the form {value['pgtrickle_dump']}, and this version reads {FORM}",
            hint=f"Restore it with pgtrickle {value.get('package', 'of that version')} or later.",
        )
    # The last entry: what was cut off in the middle has none.
    if value.get("complete") is not True:
        raise _damaged(path, "its end is missing")
    check_shape(value, shape, str(path))
    return value


def _inside(directory: Path, name: str) -> Path:
    """Return the path of a file in the directory of a dump, and of nothing elsewhere."""
    if not _NAME.fullmatch(name):
        raise _damaged(directory / INDEX_FILE, f"{name!a} is not the name of a part")
    return directory / name


def _find_rows(directory: Path, entry: Mapping[str, Any]) -> DumpedRows:
    path = _inside(directory, entry["file"])
    try:
        found = hashlib.sha256()
        for block in _blocks(path):
            found.update(block)
        moment = datetime.fromisoformat(entry["data_timestamp"])
    except OSError as error:
        raise _damaged(path, str(error.strerror)) from error
    except ValueError as error:
        raise _damaged(path, str(error)) from error
    if found.hexdigest() != entry["sha256"] or moment.tzinfo is None:
        raise _damaged(path, "its rows are not those that were dumped")
    return DumpedRows(path, entry["rows"], entry["sha256"], moment)


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            yield block


def _damaged(path: Path, why: str) -> DumpDamagedError:
    return DumpDamagedError(
        f"{path} is not a dump of definitions, or is damaged: {why}",
        hint="Give a file or a directory that pgtrickle dump has written.",
    )


def _unwritable(path: Path, error: OSError) -> SettingError:
    return SettingError(
        f"{path} cannot be written: {error.strerror}", hint="Choose another place for the dump."
    )
