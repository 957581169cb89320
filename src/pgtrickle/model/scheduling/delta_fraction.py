"""``max_delta_fraction``: a stream table's own limit of change, above which AUTO recomputes."""

from __future__ import annotations

from typing import Literal

from pgtrickle.errors import SettingError
from pgtrickle.model.text.lengths import shorten

DEFAULT: Literal["default"] = "default"  # leave it to differential_max_change_ratio
Fraction = float | Literal["default"]


def check_fraction(value: object) -> float:
    """Return a share between 0 and 1, or raise ST501.

    >>> check_fraction(0.25)
    0.25
    >>> check_fraction(7)
    Traceback (most recent call last):
    pgtrickle.errors.SettingError: the max_delta_fraction of a stream table cannot be "7"
    """
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1:
        return float(value)
    raise SettingError(
        f'the max_delta_fraction of a stream table cannot be "{shorten(value)}"',
        hint="Give a share between 0 and 1, or default for the setting"
        " differential_max_change_ratio.",
    )


def read_fraction(given: object) -> float:
    """Read a share that may come as text, as from SQL, where the word ``default`` fits, too.

    >>> read_fraction("0.25")
    0.25
    """
    if not isinstance(given, str):
        return check_fraction(given)
    try:
        return check_fraction(float(given))
    except ValueError:
        raise SettingError(
            f'the max_delta_fraction "{shorten(given)}" is not a number',
            hint='Give a number from 0 to 1, or "default".',
        ) from None
