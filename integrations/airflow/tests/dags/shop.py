"""The DAGs of the tests; run with the name of one, it runs that."""

from __future__ import annotations

import sys
from datetime import datetime, timedelta

from airflow.sdk import DAG
from airflow_provider_pgtrickle.operators import RefreshStreamTableOperator
from airflow_provider_pgtrickle.sensors import StreamTableFreshnessSensor


def dag(name: str) -> DAG:
    return DAG(name, schedule=None, start_date=datetime(2026, 1, 1))


with dag("refresh") as refresh:
    revenue = RefreshStreamTableOperator(task_id="revenue", stream_table="revenue", verify=True)
    best = RefreshStreamTableOperator(
        task_id="best", stream_table="best", deferrable=True, poll_interval=0.2, verify=True
    )
    revenue >> best

with dag("wait") as wait:
    for deferrable in (False, True):
        StreamTableFreshnessSensor(
            task_id="deferred" if deferrable else "poked",
            stream_table="revenue",
            max_age=timedelta(seconds=30),
            poke_interval=0.5,
            timeout=60,
            deferrable=deferrable,
        )

with dag("missing") as missing:
    RefreshStreamTableOperator(task_id="missing", stream_table="missing")

with dag("missing_deferred") as missing_deferred:
    RefreshStreamTableOperator(
        task_id="missing", stream_table="missing", deferrable=True, poll_interval=0.2
    )

if __name__ == "__main__":
    done = globals()[sys.argv[1]].test()
    sys.exit(0 if str(done.state) == "success" else 1)
