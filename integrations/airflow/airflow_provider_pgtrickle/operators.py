"""An operator that refreshes a stream table and waits until that is done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException

from airflow_provider_pgtrickle.hook import DEFAULT, PgTrickleHook
from airflow_provider_pgtrickle.triggers import RefreshTrigger


class RefreshStreamTableOperator(BaseOperator):
    """Refresh a stream table; the result says what was done and how many rows changed.

    A daemon does the work, or, without one, the worker.  With ``deferrable`` a daemon is needed,
    and no worker waits for it.  With ``verify`` the task fails if the contents are not the query's
    own answer.
    """

    template_fields: Sequence[str] = ("stream_table", "conn_id")

    def __init__(
        self,
        *,
        stream_table: str,
        full: bool = False,
        verify: bool = False,
        deferrable: bool = False,
        poll_interval: float = 2.0,
        conn_id: str = DEFAULT,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.stream_table = stream_table
        self.full = full
        self.verify = verify
        self.deferrable = deferrable
        self.poll_interval = poll_interval
        self.conn_id = conn_id

    def execute(self, context: Any) -> dict[str, Any]:
        """Refresh, or ask for it and wait elsewhere."""
        hook = PgTrickleHook(self.conn_id)
        if self.deferrable:
            request = hook.submit_refresh(self.stream_table, full=self.full)
            self.log.info("the daemon was asked for a refresh: request %s", request)
            self.defer(
                trigger=RefreshTrigger(self.conn_id, request, self.poll_interval),
                method_name="resume",
                timeout=self.execution_timeout,
            )
        with hook.client() as trickle:
            report = trickle.refresh_stream_table(self.stream_table, full=self.full)
        return self._end(
            {
                "name": report.stream_table,
                "refresh_id": report.refresh_id,
                "action": report.action.value,
                "reason": report.reason,
                "rows_inserted": report.rows_inserted,
                "rows_deleted": report.rows_deleted,
                "duration_ms": report.duration_ms,
            }
        )

    def resume(self, context: Any, event: Mapping[str, Any]) -> dict[str, Any]:
        """Go on when the daemon has refreshed it."""
        if "error" in event:
            raise AirflowException(event["error"])
        return self._end(event["result"])

    def _end(self, result: dict[str, Any]) -> dict[str, Any]:
        self.log.info(
            "%s: %s, %s rows inserted, %s deleted: %s",
            *(
                result[word]
                for word in ("name", "action", "rows_inserted", "rows_deleted", "reason")
            ),
        )
        if self.verify:
            with PgTrickleHook(self.conn_id).client() as trickle:
                found = trickle.verify_stream_table(self.stream_table)
            if not found.ok:
                raise AirflowException(
                    f"{found.stream_table} differs from its query:"
                    f" {found.missing} rows are missing, {found.extra} too many"
                )
        return result
