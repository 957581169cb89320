"""Keeping passwords out of everything that people are shown."""

from __future__ import annotations

import re

_HIDDEN = "***"
# To the last "@" of the line: what should have been escaped is hidden with its "@", "/" or blank.
_IN_URL = re.compile(r"(://[^\s:/@]*:)[^\n]*@")
_AS_OPTION = re.compile(r"(password\s*=\s*)('(?:\\.|[^'\\])*'|[^\s&]+)", re.IGNORECASE)


def hide_passwords(text: str) -> str:
    """Replace the passwords of the connection strings inside a text.

    >>> hide_passwords("could not use postgresql://ann:secret@db/shop")
    'could not use postgresql://ann:***@db/shop'
    >>> hide_passwords("host=db password='my secret' dbname=shop")
    'host=db password=*** dbname=shop'
    """
    text = _IN_URL.sub(rf"\g<1>{_HIDDEN}@", text)
    return _AS_OPTION.sub(rf"\g<1>{_HIDDEN}", text)
