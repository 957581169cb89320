"""The search path of pgtrickle's own statements.

``pg_temp`` is named so that it comes last: unnamed, PostgreSQL would search it first for tables and
types, and any user of a shared session could create objects there.
"""

from __future__ import annotations

OWN_PATH = "pg_catalog, pg_temp"
