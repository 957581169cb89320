"""What a result was measured on, as far as it matters for reading it."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from typing import Any

from psycopg import Connection
from psycopg.rows import TupleRow


def describe_machine(connection: Connection[TupleRow]) -> dict[str, Any]:
    """Return cores, memory and versions; no name or path of the machine."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    version = connection.info.server_version
    return {
        "cores": os.cpu_count(),
        "memory_gib": round(memory / 2**30),
        "architecture": platform.machine(),
        "python": platform.python_version(),
        "postgresql": f"{version // 10000}.{version % 10000}",
        "pyspark": metadata.version("pyspark"),
        "duckdb": metadata.version("duckdb"),
        "tpchgen": metadata.version("tpchgen-cli"),
        "pgtrickle": metadata.version("pgtrickle"),
    }
