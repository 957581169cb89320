"""Refreshes as runs of OpenLineage: what was read and written, and where each column comes from.

Names, types, numbers and codes go out, never a query, a value or the text of an error.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import (
    DatasetFacet,
    JobFacet,
    OutputDatasetFacet,
    RunFacet,
    column_lineage_dataset,
    error_message_run,
    job_type_job,
    output_statistics_output_dataset,
    processing_engine_run,
    schema_dataset,
)
from openlineage.client.transport.http import ApiKeyTokenProvider, HttpConfig, HttpTransport
from psycopg.conninfo import conninfo_to_dict

from pgtrickle.algebra.lineage import Derivation, Origin, trace_columns
from pgtrickle.errors import RefreshCancelledError
from pgtrickle.model.stream_table import Action
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.model.version import VERSION
from pgtrickle.service.observing.courier import Courier
from pgtrickle.service.observing.observer import Ended
from pgtrickle.service.refreshing.refresh import Prepared

_SECONDS = 5.0  # for which one attempt to send may last
_PRODUCER = f"https://pypi.org/project/pgtrickle/{VERSION}"
_ONE_ATTEMPT = {"total": 0}
_INDIRECT = frozenset({Derivation.FILTER, Derivation.JOIN, Derivation.GROUP_BY})


class LineageSender:
    """An observer that sends refreshes as runs to a catalog of lineage."""

    def __init__(self, url: str, dsn: str) -> None:
        parts = conninfo_to_dict(dsn)
        host = str(parts.get("host") or "localhost")
        host = "localhost" if host.startswith(("/", "@")) else host
        self._datasets = f"postgres://{host}:{parts.get('port') or 5432}"
        self._database = str(parts.get("dbname") or "")
        self._jobs = os.environ.get("OPENLINEAGE_NAMESPACE", "pgtrickle")
        config = HttpConfig(url=url, timeout=_SECONDS, retry=_ONE_ATTEMPT)
        if key := os.environ.get("OPENLINEAGE_API_KEY"):
            config.auth = ApiKeyTokenProvider({"apiKey": key})
        self._client = OpenLineageClient(transport=HttpTransport(config))
        self._courier: Courier[RunEvent] = Courier("events of lineage", self._send)

    def ended(self, ended: Ended) -> None:
        """Hand the events of a refresh over; one that found no change is no run."""
        if ended.report is None or ended.report.action is not Action.NO_DATA:
            self._courier.hand_over(self._events(ended))

    def close(self) -> None:
        """Send what waits, and let the catalog go."""
        self._courier.close()

    def _send(self, events: Sequence[RunEvent]) -> None:
        for event in events:
            self._client.emit(event)

    def _events(self, ended: Ended) -> list[RunEvent]:
        job = Job(self._jobs, self._name(ended.refresh.stream_table.name), _JOB)
        run = Run(str(uuid.UUID(hex=ended.trace.id)), self._run_facets(ended))
        inputs, outputs = self._inputs(ended), [self._output(ended)]
        states = ((RunState.START, ended.trace.began), (_end(ended), ended.ended))
        return [
            RunEvent(
                eventTime=_time(at),
                producer=_PRODUCER,
                run=run,
                job=job,
                eventType=state,
                inputs=inputs,
                outputs=outputs,
            )
            for state, at in states
        ]

    def _run_facets(self, ended: Ended) -> dict[str, RunFacet]:
        found: dict[str, RunFacet] = {}
        if ended.prepared is not None:
            found["processing_engine"] = processing_engine_run.ProcessingEngineRunFacet(
                version=VERSION, name=ended.prepared.dialect.value
            )
        if ended.error is not None:
            found["errorMessage"] = error_message_run.ErrorMessageRunFacet(
                message=ended.error.code, programmingLanguage="SQL"
            )
        return found

    def _inputs(self, ended: Ended) -> list[InputDataset]:
        sources = () if ended.prepared is None else ended.prepared.dependencies
        names = sorted({self._name(one.source) for one in sources})
        return [InputDataset(self._datasets, name) for name in names]

    def _output(self, ended: Ended) -> OutputDataset:
        facets: dict[str, DatasetFacet] = {}
        written: dict[str, OutputDatasetFacet] = {}
        if ended.prepared is not None:
            facets["schema"] = schema_dataset.SchemaDatasetFacet(
                [
                    schema_dataset.SchemaDatasetFacetFields(one.name, one.type.display)
                    for one in ended.prepared.compiled.columns
                ]
            )
            if lineage := self._column_lineage(ended.prepared):
                facets["columnLineage"] = lineage
        if ended.report is not None:
            written["outputStatistics"] = (
                output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
                    rowCount=ended.report.rows_inserted
                )
            )
        name = self._name(ended.refresh.stream_table.name)
        return OutputDataset(self._datasets, name, written, facets=facets)

    def _column_lineage(
        self, prepared: Prepared
    ) -> column_lineage_dataset.ColumnLineageDatasetFacet | None:
        """Return it unless PostgreSQL answers the query as a whole."""
        if prepared.compiled.algebra is None:
            return None
        found = trace_columns(prepared.compiled.algebra)
        fields = {
            name: column_lineage_dataset.Fields(self._fields(origins.items()))
            for name, origins in found.columns.items()
        }
        return column_lineage_dataset.ColumnLineageDatasetFacet(
            fields, self._fields(sorted(found.deciding, key=lambda one: (one[0], one[1].value)))
        )

    def _fields(
        self, origins: Iterable[tuple[Origin, Derivation]]
    ) -> list[column_lineage_dataset.InputField]:
        return [
            column_lineage_dataset.InputField(
                self._datasets,
                self._name(origin.table),
                origin.column,
                [
                    column_lineage_dataset.Transformation(
                        "INDIRECT" if how in _INDIRECT else "DIRECT", how.value
                    )
                ],
            )
            for origin, how in origins
        ]

    def _name(self, name: QualifiedName) -> str:
        return f"{self._database}.{name.schema}.{name.name}"


_JOB: dict[str, JobFacet] = {
    "jobType": job_type_job.JobTypeJobFacet(
        processingType="BATCH", integration="PGTRICKLE", jobType="REFRESH"
    )
}


def _end(ended: Ended) -> RunState:
    if ended.error is None:
        return RunState.COMPLETE
    cancelled = isinstance(ended.error, RefreshCancelledError)
    return RunState.ABORT if cancelled else RunState.FAIL


def _time(nanoseconds: int) -> str:
    return datetime.fromtimestamp(nanoseconds / 1e9, UTC).isoformat()
