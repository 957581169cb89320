"""A sensor that waits until the contents of a stream table are young enough."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from airflow.sdk import BaseSensorOperator
from airflow.sdk.exceptions import AirflowException

from airflow_provider_pgtrickle.hook import DEFAULT, PgTrickleHook
from airflow_provider_pgtrickle.triggers import FreshnessTrigger


class StreamTableFreshnessSensor(BaseSensorOperator):
    """Wait until the contents of a stream table are younger than ``max_age``.

    It asks for no refresh: the daemon's schedule does that, or another task.  With ``deferrable``
    no worker waits.
    """

    template_fields: Sequence[str] = ("stream_table", "conn_id")

    def __init__(
        self,
        *,
        stream_table: str,
        max_age: timedelta,
        deferrable: bool = False,
        conn_id: str = DEFAULT,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.stream_table = stream_table
        self.max_age = max_age
        self.deferrable = deferrable
        self.conn_id = conn_id

    def execute(self, context: Any) -> Any:
        """Look, and wait here or elsewhere."""
        if not self.deferrable:
            return super().execute(context)
        if not self.poke(context):
            self.defer(
                trigger=FreshnessTrigger(
                    self.conn_id,
                    self.stream_table,
                    self.max_age.total_seconds(),
                    float(self.poke_interval),
                ),
                method_name="resume",
                timeout=timedelta(seconds=self.timeout),
            )
        return None

    def poke(self, context: Any) -> bool:
        """Tell whether the contents are young enough."""
        with PgTrickleHook(self.conn_id).client() as trickle:
            age = trickle.insight.get_staleness(self.stream_table)
        told = "never loaded" if age is None else f"{age:.1f} s old"
        self.log.info("%s: %s, wanted within %s", self.stream_table, told, self.max_age)
        return age is not None and age <= self.max_age.total_seconds()

    def resume(self, context: Any, event: Mapping[str, Any]) -> None:
        """Go on when they are."""
        if "error" in event:
            raise AirflowException(event["error"])
        self.log.info("%s: %.1f s old", self.stream_table, event["age"])
