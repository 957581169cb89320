"""How long a text from outside may be; asked before anything looks at what it holds.

Regular expressions, numbers and error messages are all made from such texts, and each of them
takes a megabyte of quotes or digits worse than the sender does.
"""

from __future__ import annotations

LONGEST_NAME = 1024  # two quoted parts of 63 bytes, each byte a quote, fit four times
LONGEST_SCHEDULE = 1024
LONGEST_VALUE = 8192  # of a setting, a path, a word
_SHOWN = 100


def shorten(value: object) -> str:
    """Return something that was given, as far as an error may repeat it.

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
