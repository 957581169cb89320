"""How a connection notices that its server is gone.

A machine that lost its power or its network sends nothing, and by the defaults of an operating
system a session would wait for it for hours.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Parameters of libpq.  Together they notice a lost server within about a minute.
_KEEPALIVES: Mapping[str, str] = {
    "keepalives": "1",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",  # milliseconds
}


def noticing_lost_server(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Add the missing parameters to a connection; the user's own stay.

    >>> noticing_lost_server({"host": "db", "tcp_user_timeout": "5000"})["tcp_user_timeout"]
    '5000'
    """
    return {**_KEEPALIVES, **parameters}
