"""Numbers of bytes in words."""

from __future__ import annotations

_KILO = 1024
_UNITS = ("B", "kB", "MB", "GB", "TB")


def in_bytes(number: int) -> str:
    """Write a number of bytes.

    >>> in_bytes(512), in_bytes(2048), in_bytes(5 * 1024**3)
    ('512 B', '2.0 kB', '5.0 GB')
    """
    value, unit = float(number), _UNITS[0]
    for unit in _UNITS:
        if value < _KILO or unit == _UNITS[-1]:
            break
        value /= _KILO
    return f"{number} B" if unit == "B" else f"{value:.1f} {unit}"
