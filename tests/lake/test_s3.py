"""A lake in an object store: the same promises, over HTTP, with a store that fails at times."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import duckdb_extension_httpfs
import psycopg
import pytest

import pgtrickle
from pgtrickle.errors import LakeSinkError
from pgtrickle.lake.files import stores as storage
from pgtrickle.lake.format.catalog import create_catalog
from pgtrickle.lake.reader.files import read_file
from pgtrickle.lake.reader.open import LakeRead, describe, plan
from pgtrickle.service.sinks.ducklake import delivery as lake_sink
from pgtrickle.settings import load_settings
from tests.fakes.engine import DuckDbEngine
from tests.fakes.spreading import SpreadingEngine
from tests.fixtures.ducklake import lake_client
from tests.fixtures.engines import Borrowed
from tests.lake.shore import COPY, SOURCE, SUMS, Shore
from tests.lake.store import KEY, REGION, SECRET, Store, start_store

_AT_ONCE = timedelta(0)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """Start a store; the environment says how to reach it."""
    store = start_store()
    for name, value in {
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_ENDPOINT_URL_S3": f"http://{store.address}",
        "AWS_REGION": REGION,
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    yield store
    store.stop()


@pytest.fixture
def far_shore(
    database: str, duckdb_engine: DuckDbEngine, store: Store, tmp_path: Path
) -> Iterator[Shore]:
    """Open pgtrickle on a database whose lake is in a bucket, and DuckDB beside it."""
    settings = load_settings(
        {}, dsn=database, ducklake_catalog_schema="lake", ducklake_sink_retry_seconds=0.01
    )
    [httpfs] = Path(duckdb_extension_httpfs.__file__).parent.rglob("httpfs.duckdb_extension")
    with (
        psycopg.connect(database, autocommit=True) as connection,
        pgtrickle.connect(database, engine=Borrowed(duckdb_engine), settings=settings) as trickle,
    ):
        create_catalog(connection, "lake", "s3://lake/data dir/")
        secret = (
            f"CREATE SECRET (TYPE s3, KEY_ID '{KEY}', SECRET '{SECRET}', REGION '{REGION}',"
            f" ENDPOINT '{store.address}', URL_STYLE 'path', USE_SSL false)"
        )
        with lake_client(database, "lake", f"LOAD '{httpfs}'", secret) as client:
            shore = Shore(trickle, connection, client, tmp_path)
            shore.run(*SOURCE)
            yield shore


def test_duckdb_reads_from_the_store_what_the_stream_table_holds(
    far_shore: Shore, store: Store
) -> None:
    shore = far_shore
    shore.create("sums", SUMS)
    shore.create("copied", COPY)
    for number in range(3):
        shore.window("sums", f"UPDATE t SET v = v + 1 WHERE k = {number}")
        shore.window("copied", f"DELETE FROM t WHERE id = {number + 10}")
    assert all(key.startswith("data dir/main/") for key in store.list_keys())
    assert len(store.list_keys()) >= 5
    [(first,)] = shore.tell("SELECT min(begin_snapshot) FROM lake.ducklake_data_file")
    assert shore.in_lake("sums", first).total() == 5


def test_many_deletes_and_merged_files_lie_in_the_store_too(far_shore: Shore, store: Store) -> None:
    shore = far_shore
    shore.run("INSERT INTO t SELECT i, 9, 1, 'm' FROM generate_series(1000, 4000) AS i")
    shore.create("copied", COPY)
    shore.window("copied", "DELETE FROM t WHERE id BETWEEN 1000 AND 3000")
    assert any(key.endswith("-delete.parquet") for key in store.list_keys())
    for number in range(8):
        shore.window("copied", f"INSERT INTO t VALUES ({5000 + number}, 1, 1, 'n')")
    before = len(store.list_keys())
    [care] = shore.trickle.lake.maintain_lake(_AT_ONCE).sinks
    assert (care.error, care.merged) == (None, 9)
    shore.check("copied")
    [care] = shore.trickle.lake.maintain_lake(_AT_ONCE).sinks
    assert len(store.list_keys()) < before
    shore.check("copied")


def test_large_files_are_uploaded_in_parts(far_shore: Shore, store: Store) -> None:
    shore = far_shore
    shore.run(
        "CREATE TABLE big (id int PRIMARY KEY, noise text)",
        "INSERT INTO big SELECT i, (SELECT string_agg(md5((i * 1000 + j)::text), '')"
        " FROM generate_series(1, 200) AS j) FROM generate_series(1, 4000) AS i",
    )
    shore.create("copies", "SELECT id, noise FROM big")
    parts = [path for method, path in store.requests if method == "PUT" and "partNumber" in path]
    assert len(parts) >= 2


def test_large_load_comes_to_the_store_in_parts_and_leaves_no_other_file(
    far_shore: Shore, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    shore = far_shore
    monkeypatch.setattr(lake_sink, "largest_in_place", lambda _: 0)
    shore.run("INSERT INTO t SELECT i, i % 5, i, 's' || i FROM generate_series(101, 3000) AS i")
    settings = load_settings({}, dsn=shore.trickle.dsn, ducklake_catalog_schema="lake")
    engine = SpreadingEngine(shore.trickle.dsn)
    engine.repeated = 2
    with pgtrickle.connect(shore.trickle.dsn, engine=engine, settings=settings) as trickle:
        trickle.create_stream_table("copied", COPY, sink="ducklake")
    assert engine.spreads == [4]
    assert len(store.list_keys()) == 4
    shore.check("copied")


def test_orphans_are_swept_from_the_store(far_shore: Shore, store: Store) -> None:
    shore = far_shore
    shore.create("sums", SUMS)
    key = "data dir/main/sums/ducklake-00000000-0000-0000-0000-000000000000.parquet"
    store.put(key, b"left by a writer that was killed")
    store.put("data dir/main/sums/notes.txt", b"not ours")
    [young] = shore.trickle.lake.maintain_lake(timedelta(days=1)).sinks
    assert young.orphans == ()
    [care] = shore.trickle.lake.maintain_lake(_AT_ONCE).sinks
    assert care.orphans == (f"s3://lake/{key}",)
    assert "data dir/main/sums/notes.txt" in store.list_keys()
    shore.check("sums")


def test_a_store_that_is_busy_for_a_moment_is_asked_again(far_shore: Shore, store: Store) -> None:
    shore = far_shore
    shore.create("sums", SUMS)
    store.failing["PUT"] = 2
    shore.window("sums", "UPDATE t SET v = v + 1 WHERE k = 2")
    assert shore.status() == ("DELIVERED", 0, None)
    assert store.failing["PUT"] == 0


def test_a_store_that_is_down_catches_up_with_one_delivery(
    far_shore: Shore, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    shore = far_shore
    monkeypatch.setattr(storage, "_ATTEMPTS", 1)  # each waits longer than the one before
    shore.create("sums", SUMS)
    store.failing = dict.fromkeys(("HEAD", "GET", "PUT", "POST", "DELETE"), 1000)
    for number in range(2):
        shore.run(f"UPDATE t SET v = v + 1 WHERE k = {number}")
        shore.trickle.refresh_stream_table("sums")
    status, attempts, error = shore.status()
    assert status == "FAILED_RETRYABLE"
    assert attempts >= 1
    assert error is not None
    assert SECRET not in error
    store.failing.clear()
    shore.trickle.lake.retry_sink("sums")
    shore.check("sums")
    assert shore.status()[0] == "DELIVERED"


def test_a_file_that_failed_leaves_nothing_behind(far_shore: Shore, store: Store) -> None:
    shore = far_shore
    shore.create("sums", SUMS)
    before = store.list_keys()
    store.failing["PUT"] = 1000
    shore.run("UPDATE t SET v = v + 1 WHERE k = 2")
    shore.trickle.refresh_stream_table("sums")
    store.failing.clear()
    assert shore.status()[0] == "FAILED_RETRYABLE"
    assert store.list_keys() == before
    shore.trickle.lake.retry_sink("sums")
    shore.check("sums")


def test_no_secret_reaches_the_catalog_or_the_log(far_shore: Shore, store: Store) -> None:
    shore = far_shore
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    logging.getLogger().addHandler(handler)
    try:
        shore.create("sums", SUMS)
        store.failing["PUT"] = 3
        shore.run("UPDATE t SET v = v + 1 WHERE k = 2")
        shore.trickle.refresh_stream_table("sums")
    finally:
        logging.getLogger().removeHandler(handler)
    assert "could not deliver to the lake" in written.getvalue()
    tables = shore.tell(
        "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables"
        " WHERE schemaname IN ('lake', 'pgtrickle')"
    )
    told = [str(shore.tell(f"SELECT t::text FROM {table} AS t")) for (table,) in tables]
    for secret in (SECRET, KEY):
        assert secret not in written.getvalue()
        assert not any(secret in one for one in told)


def test_paths_that_hold_secrets_or_nothing_are_refused(shore: Shore) -> None:
    for path in ("s3://key:secret@lake/x", "s3://", "gs://lake", "s3://lake?x=1"):
        with pytest.raises(LakeSinkError, match="cannot hold files of the lake"):
            shore.trickle.create_stream_table(
                "sums", SUMS, sink="ducklake", ducklake_sink_path=path
            )


def test_the_reader_reads_from_the_store(far_shore: Shore) -> None:
    shore = far_shore
    shore.create("copied", COPY)
    shore.window("copied", "DELETE FROM t WHERE id < 20")
    read = LakeRead.from_options(
        {"dsn": shore.trickle.dsn, "catalog_schema": "lake", "table": "copied"}
    )
    snapshot_id, columns = describe(read)
    scan = plan(read, snapshot_id, columns)
    found = [
        tuple(row.values())
        for file in scan.files
        for batch in read_file(file, columns, snapshot_id)
        for row in batch.to_pylist()
    ]
    assert sorted(found) == sorted(shore.tell("TABLE copied"))
