"""The settings under which values are read as text: one form for every database and role."""

from __future__ import annotations

# Settings that affect the text of a value, and the wait for a locked table:
# short, because other refreshes wait for their turn.  Local to the transaction, since a pooler
# shares sessions.  The time zone stays the database's own: expressions that depend on it are
# evaluated by the read, and the text of a time with zone names its offset.
FIXED_TEXTS = """SELECT pg_catalog.set_config('datestyle', 'ISO, MDY', true),
    pg_catalog.set_config('intervalstyle', 'postgres', true),
    pg_catalog.set_config('bytea_output', 'hex', true),
    pg_catalog.set_config('extra_float_digits', '1', true)"""
FIXED_SETTINGS = f"{FIXED_TEXTS}, pg_catalog.set_config('lock_timeout', '1s', true)"

# For a statement between others, which keep the settings that they have.
SAVE_TEXTS = """SELECT pg_catalog.current_setting('datestyle'),
    pg_catalog.current_setting('intervalstyle'), pg_catalog.current_setting('bytea_output'),
    pg_catalog.current_setting('extra_float_digits')"""
RESTORE_TEXTS = """SELECT pg_catalog.set_config('datestyle', %s, true),
    pg_catalog.set_config('intervalstyle', %s, true),
    pg_catalog.set_config('bytea_output', %s, true),
    pg_catalog.set_config('extra_float_digits', %s, true)"""
