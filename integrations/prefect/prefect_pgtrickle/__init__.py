"""Stream tables of pgtrickle in Prefect: a block for the database, and three tasks."""

from prefect_pgtrickle.block import PgTrickleDatabase
from prefect_pgtrickle.tasks import (
    refresh_stream_table,
    verify_stream_table,
    wait_until_fresh,
)

__all__ = [
    "PgTrickleDatabase",
    "refresh_stream_table",
    "verify_stream_table",
    "wait_until_fresh",
]
