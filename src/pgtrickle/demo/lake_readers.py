"""Other readers of a lake: DuckDB and Spark, where they are installed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pgtrickle.model.text.names import quote_identifier, quote_literal
from pgtrickle.model.text.trusted import trusted
from pgtrickle.settings import CATALOG_SCHEMA


def read_by_duckdb(dsn: str, table: str, columns: Sequence[str]) -> list[tuple[Any, ...]] | str:
    """Return the rows as DuckDB reads them, or why it is left out."""
    try:
        import duckdb  # noqa: PLC0415 - not of this package
        import duckdb_extension_ducklake  # noqa: PLC0415 - not of this package
        import duckdb_extension_postgres_scanner  # noqa: PLC0415 - not of this package
    except ImportError:
        return "pip install duckdb duckdb-extension-ducklake duckdb-extension-postgres-scanner"
    extensions = {
        "ducklake": duckdb_extension_ducklake,
        "postgres_scanner": duckdb_extension_postgres_scanner,
    }
    with duckdb.connect(config={"autoinstall_known_extensions": False}) as client:
        for name, module in extensions.items():
            [file] = Path(module.__file__).parent.rglob(f"{name}.duckdb_extension")
            client.execute(trusted(f"LOAD {quote_literal(str(file))}").decode())
        place = quote_literal(f"ducklake:postgres:{dsn}")
        schema = quote_literal(CATALOG_SCHEMA)
        client.execute(trusted(f"ATTACH {place} AS lake (METADATA_SCHEMA {schema})").decode())
        named = ", ".join(map(quote_identifier, columns))
        rows = f"SELECT {named} FROM lake.main.{quote_identifier(table)}"
        return client.execute(trusted(rows).decode()).fetchall()


def read_by_spark(dsn: str, table: str, columns: Sequence[str]) -> list[tuple[Any, ...]] | str:
    """Return the rows as the Spark of this process reads them, or why it is left out."""
    try:
        from pgtrickle.lake.reader.source import register_ducklake  # noqa: PLC0415 - an extra
        from pgtrickle.spark.sessions.users_session import find_session  # noqa: PLC0415 - an extra
    except ImportError:
        return "pip install 'pgtrickle[spark]'"
    session = find_session()
    if session is None:
        return "no Spark runs in this process"
    register_ducklake(session)
    words = {"dsn": dsn, "catalog_schema": CATALOG_SCHEMA, "table": f"main.{table}"}
    frame = session.read.format("ducklake").options(**words).load()
    return [tuple(row) for row in frame.select(*columns).collect()]
