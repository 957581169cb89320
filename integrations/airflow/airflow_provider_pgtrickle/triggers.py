"""What Airflow's triggerer waits for, while no worker does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import psycopg
from airflow.triggers.base import BaseTrigger, TriggerEvent
from asgiref.sync import sync_to_async

from airflow_provider_pgtrickle.hook import PgTrickleHook, follow

_PACKAGE = "airflow_provider_pgtrickle.triggers"
_AGE = "SELECT pgtrickle.get_staleness(%(name)s)"


class RefreshTrigger(BaseTrigger):
    """Fires when a request to the daemon has ended."""

    def __init__(self, conn_id: str, request: int, poll_interval: float) -> None:
        super().__init__()
        self.conn_id = conn_id
        self.request = request
        self.poll_interval = poll_interval

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return what another process makes this one from; no password is in it."""
        words = {
            "conn_id": self.conn_id,
            "request": self.request,
            "poll_interval": self.poll_interval,
        }
        return f"{_PACKAGE}.RefreshTrigger", words

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look until the request has ended."""
        dsn = await sync_to_async(PgTrickleHook(self.conn_id).dsn)()
        while (ended := await follow(dsn, self.request)) is None:
            await asyncio.sleep(self.poll_interval)
        yield TriggerEvent(ended)


class FreshnessTrigger(BaseTrigger):
    """Fires when the contents of a stream table are young enough."""

    def __init__(self, conn_id: str, stream_table: str, max_age: float, poll_interval: float):
        super().__init__()
        self.conn_id = conn_id
        self.stream_table = stream_table
        self.max_age = max_age
        self.poll_interval = poll_interval

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return what another process makes this one from; no password is in it."""
        words = {
            "conn_id": self.conn_id,
            "stream_table": self.stream_table,
            "max_age": self.max_age,
            "poll_interval": self.poll_interval,
        }
        return f"{_PACKAGE}.FreshnessTrigger", words

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look until the contents are young enough."""
        dsn = await sync_to_async(PgTrickleHook(self.conn_id).dsn)()
        while True:
            try:
                age = await self._age(dsn)
            except psycopg.DatabaseError as error:
                if isinstance(error, psycopg.OperationalError):  # the server may come back
                    age = None
                else:
                    yield TriggerEvent({"error": str(error)})
                    return
            if age is not None and age <= self.max_age:
                yield TriggerEvent({"age": age})
                return
            await asyncio.sleep(self.poll_interval)

    async def _age(self, dsn: str) -> float | None:
        async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
            cursor = await connection.execute(_AGE, {"name": self.stream_table})
            row = await cursor.fetchone()
        return None if row is None or row[0] is None else float(row[0])
