"""Secrets in the options of pipelines: named there, and read where the relay runs.

``${ENV:NAME}`` is a variable of the environment, ``${FILE:/path}`` the contents of a file.  Whoever
writes a file of pipelines may name any.  A definition in the catalog may name only what the relay's
environment sets apart for it: otherwise the owner of a database could send himself other secrets of
the machine.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pgtrickle.errors import SecretMissingError

_REFERENCE: Final = re.compile(r"\$\{(ENV|FILE):([^}]*)\}")
OPEN_PREFIX: Final = "PGTRICKLE_RELAY_"  # of variables that definitions in the catalog may name
SECRETS_FOLDER: Final = "PGTRICKLE_RELAY_SECRETS"  # names the folder of files that they may name
_LARGEST: Final = 65_536


def resolve(options: Mapping[str, Any], *, trusted: bool) -> dict[str, Any]:
    """Return options with their secrets in place of the references to them.

    >>> resolve({"key": "no secret", "n": 1}, trusted=False)
    {'key': 'no secret', 'n': 1}
    """
    return {name: _resolve(value, trusted=trusted) for name, value in options.items()}


def _resolve(value: Any, *, trusted: bool) -> Any:
    match value:
        case str():
            return _REFERENCE.sub(lambda found: _read(found[1], found[2], trusted=trusted), value)
        case dict():
            return {name: _resolve(one, trusted=trusted) for name, one in value.items()}
        case list():
            return [_resolve(one, trusted=trusted) for one in value]
        case _:
            return value


def _read(kind: str, name: str, *, trusted: bool) -> str:
    return _read_variable(name, trusted=trusted) if kind == "ENV" else _read_file(name, trusted)


def _read_variable(name: str, *, trusted: bool) -> str:
    if not (trusted or name.startswith(OPEN_PREFIX)):
        raise SecretMissingError(
            f"a pipeline in the catalog may not use the variable {name[:80]!r}",
            hint=f"Call it {OPEN_PREFIX}..., or define the pipeline in a file.",
        )
    value = os.environ.get(name)
    if value is None:
        raise SecretMissingError(f"the variable {name[:80]!r} is not set where the relay runs")
    return value


def _read_file(name: str, trusted: bool) -> str:  # noqa: FBT001 - as its caller has it
    path = Path(name)
    folder = os.environ.get(SECRETS_FOLDER)
    inside = folder is not None and path.resolve().is_relative_to(Path(folder).resolve())
    if not (trusted or inside):
        raise SecretMissingError(
            f"a pipeline in the catalog may not use the file {name[:200]!r}",
            hint=f"Put it in the folder that {SECRETS_FOLDER} names, or define the pipeline in a"
            " file.",
        )
    try:
        with path.open(encoding="utf-8") as file:
            return file.read(_LARGEST).rstrip("\r\n")
    except (OSError, ValueError) as error:
        raise SecretMissingError(
            f"the secret in {name[:200]!r} cannot be read: {type(error).__name__}"
        ) from error
