"""What the first refresh of a process imports: most of its time, where PostgreSQL computes."""

from __future__ import annotations

import subprocess
import sys

import psycopg

_REFRESH = """
import sys
import pgtrickle
from pgtrickle.settings import load_settings

with pgtrickle.connect(sys.argv[1], settings=load_settings(engine="postgres")) as trickle:
    trickle.create_stream_table("s", "SELECT k, count(*) AS n FROM t GROUP BY k")
    trickle.create_stream_table("s_2", "SELECT sum(n) AS n FROM s")
    with trickle._runtime.connection() as connection:
        connection.execute("INSERT INTO public.t VALUES (1)")
    for name in ("s", "s_2"):
        print(trickle.refresh_stream_table(name).action.value)
    trickle.drop_stream_table("s_2")
print(sorted({"adbc_driver_manager", "numpy", "pandas", "pyarrow", "pyspark"} & set(sys.modules)))
"""


def test_refresh_by_postgresql_imports_neither_arrow_nor_spark(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("CREATE TABLE t AS SELECT i % 3 AS k FROM generate_series(1, 9) AS i")

    found = subprocess.run(
        [sys.executable, "-c", _REFRESH, database], capture_output=True, text=True, check=True
    )

    assert found.stdout.split("\n")[:3] == ["DIFFERENTIAL", "DIFFERENTIAL", "[]"]
