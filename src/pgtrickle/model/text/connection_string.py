"""Detect connection strings that libpq may read differently from what the user meant.

An unescaped ``@`` or ``/`` in a password makes libpq read the rest as a host, a
port or a database, and name it in its error.  So libpq's message is shown only if a string leaves
no doubt; a message withheld without need only costs a look at the string.
"""

from __future__ import annotations

import re

_URL = re.compile(r"\s*postgres(?:ql)?://", re.IGNORECASE)
_HALF_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})|%00|\s")
_HOST = re.compile(r"(?:\[[^\]]*\]|[^:\[\]]*)(?::[0-9]*)?")
_PAIRS = re.compile(
    r"\s*(?:(?P<key>[a-z_]+)\s*=\s*(?:'(?:\\.|[^'\\])*'|(?:\\.|[^\s'\\])*)(?:\s+|$))*", re.DOTALL
)
_KEY = re.compile(r"([a-z_]+)\s*=")
_KEYS = frozenset(
    [
        "service",
        "servicefile",
        "host",
        "hostaddr",
        "port",
        "dbname",
        "user",
        "password",
        "passfile",
        "options",
        "sslmode",
        "sslcert",
        "sslkey",
        "sslpassword",
        "sslrootcert",
        "sslcrl",
        "sslcrldir",
        "sslsni",
        "sslcompression",
        "ssl_min_protocol_version",
        "ssl_max_protocol_version",
        "sslnegotiation",
        "sslcertmode",
        "application_name",
        "fallback_application_name",
        "connect_timeout",
        "client_encoding",
        "keepalives",
        "keepalives_idle",
        "keepalives_interval",
        "keepalives_count",
        "tcp_user_timeout",
        "requirepeer",
        "gssencmode",
        "krbsrvname",
        "gsslib",
        "gssdelegation",
        "target_session_attrs",
        "load_balance_hosts",
        "channel_binding",
        "require_auth",
        "replication",
        "requiressl",
    ]
)
HINT = (
    "Write the characters @ / : ? # % and blanks of a password as %40 %2F %3A %3F %23 %25 %20, or"
    " leave it to PGPASSWORD or a password file; in key=value form, put it in single quotes."
)


def may_be_misread(dsn: str) -> bool:
    """Tell whether libpq might name a part of the password in an error.

    >>> may_be_misread("postgresql://me:p@ss@host/db")
    True
    >>> may_be_misread("postgresql://me:p%40ss@host/db")
    False
    >>> may_be_misread("host=db password=my secret")
    True
    >>> may_be_misread("host=db password='my secret' dbname=shop")
    False
    """
    scheme = _URL.match(dsn)
    return _url_misread(dsn[scheme.end() :]) if scheme else _pairs_misread(dsn)


def _url_misread(rest: str) -> bool:
    # As libpq reads it: credentials end at the first "@", if that comes before any "/".
    if (found := re.match(r"[^@/]*@", rest)) is not None:
        rest, password = rest[found.end() :], found[0]
    else:
        password = ""
    hosts = re.split(r"[/?]", rest, maxsplit=1)[0]
    return (
        "@" in rest
        or _HALF_ESCAPE.search((password + rest).rstrip()) is not None
        or any(_HOST.fullmatch(one) is None for one in hosts.split(","))
    )


def _pairs_misread(text: str) -> bool:
    if "password" not in text.lower():
        return False
    keys = _KEY.findall(re.sub(r"=\s*'(?:\\.|[^'\\])*'", "=x", text))
    return _PAIRS.fullmatch(text) is None or not _KEYS.issuperset(keys)
