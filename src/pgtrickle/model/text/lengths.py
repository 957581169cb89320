"""The limits on the length of a text from outside, checked before its contents.

Such texts reach regular expressions, numbers and error messages, and each of them
handles a megabyte of quotes or digits badly.
"""

from __future__ import annotations

LONGEST_NAME = 1024  # two quoted parts of 63 bytes, each byte a quote, fit four times
LONGEST_SCHEDULE = 1024
LONGEST_VALUE = 8192  # of a setting, a path, a word
_SHOWN = 100


def shorten(value: object) -> str:
    """Return a value in a form that is short enough for an error.

    >>> shorten("daily")
    'daily'
    >>> shorten("9" * 5000)[-22:]
    '9... (5000 characters)'
    >>> shorten(10**5000)
    'a number of very many digits'
    """
    try:
        text = str(value)
    except ValueError:  # Python writes no more than 4,300 digits
        return "a number of very many digits"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... ({len(text)} characters)"
