"""The variables of a project: declared with a value, which a target or the caller may replace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pgtrickle.errors import ProjectFileError
from pgtrickle.model.text.lengths import shorten

_WORDS = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Variables:
    """The values for one target."""

    values: Mapping[str, Any]
    file: str

    @classmethod
    def read(
        cls,
        declared: Mapping[str, Any],
        of_target: Mapping[str, Any],
        given: Mapping[str, Any],
        file: str,
    ) -> Variables:
        """Put them together; a text that was given becomes what the declared value is.

        >>> Variables.read({"days": 7, "on": False}, {"days": 1}, {"on": "true"}, "f").values
        {'days': 1, 'on': True}
        """
        values: dict[str, Any] = {}
        for name, value in declared.items():
            values[name] = _check(name, value, file)
        for name, value in {**of_target, **given}.items():
            if name not in values:
                raise ProjectFileError(
                    f'{file} declares no variable "{shorten(name)}"',
                    hint="Declare it under variables, with its usual value.",
                )
            values[name] = _like(name, values[name], _check(name, value, file), file)
        return cls(values, file)

    def get(self, name: str) -> Any:
        """Return the value of a variable, or raise ST506."""
        if name not in self.values:
            raise ProjectFileError(
                f'there is no variable "{shorten(name)}"',
                hint=f"Declare it in {self.file}, under variables, with its usual value.",
            )
        return self.values[name]


def _check(name: str, value: object, file: str) -> object:
    one = value if isinstance(value, list) else [value]
    if not all(each is None or isinstance(each, str | int | float | bool) for each in one):
        raise ProjectFileError(
            f'{file}: the variable "{name}" is neither a plain value nor a list of them',
            hint="Put a date between quotes; a mapping cannot be a variable.",
        )
    return value


def _like(name: str, declared: object, given: object, file: str) -> object:
    if declared is None or given is None or not isinstance(given, str):
        return given
    try:
        match declared:
            case bool():
                return _WORDS[given.casefold()]
            case int():
                return int(given)
            case float():
                return float(given)
            case list():
                return [one for one in given.split(",") if one]
            case _:
                return given
    except (KeyError, ValueError) as error:
        raise ProjectFileError(
            f'the variable "{name}" cannot be "{shorten(given)}"',
            hint=f"{file} declares it with the value {declared!r}.",
        ) from error
