"""Where names in our own statements are looked for.

``pg_temp`` is named so that it comes last: unnamed, PostgreSQL would search it first for tables and
types, and anybody who shares a session could put something there.
"""

from __future__ import annotations

OWN_PATH = "pg_catalog, pg_temp"
