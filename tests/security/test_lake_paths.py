"""Rows of a lake's catalog are not orders: no file outside its directory is touched."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pgtrickle.errors import LakePathError, TrickleError
from pgtrickle.lake.files import local as local_files
from pgtrickle.lake.files.roots import LocalPath, Roots, S3Path
from pgtrickle.lake.reader.open import LakeRead, describe, plan
from pgtrickle.model.text.names import QualifiedName
from tests.security.bench import Bench
from tests.security.lake_bench import TABLE, LakeBench, a_lake, link

SCHEDULE = (
    "INSERT INTO lake.ducklake_files_scheduled_for_deletion"
    " VALUES (900, '{path}', {relative}, now() - interval '1 year')"
)
RENAME = "UPDATE lake.ducklake_data_file SET path = '{path}', path_is_relative = {relative}"


@pytest.fixture
def lake(bench: Bench, tmp_path: Path) -> Iterator[LakeBench]:
    with a_lake(bench, tmp_path) as made:
        yield made


@pytest.mark.parametrize(
    "text",
    [
        "/etc/passwd",
        "/data/lake/../lake2/x.parquet",
        "/data/lake/main/../../../etc/passwd",
        "/data/lakes/x.parquet",
        "/data/lake2/x.parquet",
        "file:///data/lake/x.parquet",
        "file:/data/lake/x.parquet",
        "http://evil.example/data/lake/x.parquet",
        "s3://lake/x.parquet",
        "/data/lake/x\0.parquet",
        "/data/lake/x\x1b[2J.parquet",
        "/data/lake/x\n.parquet",
        "/data/lake/" + "a/" * 5000,
        "",
        "x.parquet",
    ],
)
def test_a_name_outside_the_local_root_is_refused(text: str):
    with pytest.raises(LakePathError) as raised:
        Roots(("/data/lake/",)).place(text)
    assert raised.value.code == "ST708"
    assert "\x1b" not in str(raised.value)
    assert "\0" not in str(raised.value)


@pytest.mark.parametrize(
    "text",
    [
        "s3://other/a/x.parquet",
        "s3://lake/ab/x.parquet",
        "s3://lake/a/../b/x.parquet",
        "s3://lake/a/./x.parquet",
        "s3://lake/a//x.parquet",
        "s3://lake@evil/a/x.parquet",
        "S3://lake/a/x.parquet",
        "s3a://lake/a/x.parquet",
        "https://lake/a/x.parquet",
        "/lake/a/x.parquet",
        "s3://lake/a/x\0.parquet",
    ],
)
def test_a_name_outside_the_bucket_and_prefix_is_refused(text: str):
    with pytest.raises(LakePathError):
        Roots(("s3://lake/a/",)).place(text)


def test_names_as_duckdb_writes_them_are_found():
    local, store = Roots(("/data/lake/",), 0o640), Roots(("s3://lake/a",))

    assert local.place("/data/lake/main/t/x") == LocalPath("/data/lake", "main/t/x", 0o640)
    # A partition of the value a/b; what is encoded stays so, and .. in it leads nowhere.
    assert local.place("/data/lake/k=a%2Fb/%2e%2e/x").name == "x"
    assert str(local.place("/data/lake/k=a%2Fb/%2e%2e/x")) == "/data/lake/k=a%2Fb/%2e%2e/x"
    assert store.place("s3://lake/a/k=a%2Fb/x") == S3Path("s3://lake/a/k=a%2Fb/x")


def test_a_root_of_everything_is_none():
    with pytest.raises(LakePathError):
        Roots(("/",)).place("/etc/passwd")
    with pytest.raises(LakePathError):
        Roots(()).place("/etc/passwd")


def _link_to_file(root: Path, outside: Path) -> str:
    (outside / "victim").write_text("secret")
    return link(outside / "victim", root / "x").name


def _link_to_directory(root: Path, outside: Path) -> str:
    (outside / "victim").write_text("secret")
    return f"{link(outside, root / 'd').name}/victim"


def _pipe(root: Path, outside: Path) -> str:
    os.mkfifo(root / "pipe")
    return "pipe"


def _device(root: Path, outside: Path) -> str:
    return link(Path("/dev/zero"), root / "zero").name


@pytest.mark.parametrize("trap", [_link_to_file, _link_to_directory, _pipe, _device])
def test_what_is_no_file_below_the_root_is_not_opened(
    trap: Callable[[Path, Path], str], tmp_path: Path
):
    root, outside = tmp_path / "lake", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    place = Roots((str(root),)).place(f"{root}/{trap(root, outside)}")
    assert isinstance(place, LocalPath)

    with pytest.raises(LakePathError):
        local_files.open_old(place)


def test_no_link_leads_a_write_or_a_removal_elsewhere(tmp_path: Path):
    root, outside = tmp_path / "lake", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (outside / "victim").write_text("secret")
    link(outside, root / "d")
    link(outside / "new", root / "new")
    roots = Roots((str(root),))

    for attack in (local_files.open_new, local_files.remove, local_files.make_directory):
        with pytest.raises(LakePathError):
            attack(_local(roots, f"{root}/d/victim"))
    with pytest.raises(FileExistsError):
        local_files.open_new(_local(roots, f"{root}/new"))
    assert list(local_files.list_files(_local(roots, str(root)), "*")) == []
    assert (outside / "victim").read_text() == "secret"
    assert not (outside / "new").exists()


def _local(roots: Roots, text: str) -> LocalPath:
    place = roots.place(text)
    assert isinstance(place, LocalPath)
    return place


def test_the_root_itself_may_be_a_link(tmp_path: Path):
    (tmp_path / "disk").mkdir()
    link(tmp_path / "disk", tmp_path / "lake")
    place = _local(Roots((str(tmp_path / "lake"),)), f"{tmp_path}/lake/main/x")

    local_files.make_directory(_local(Roots((str(tmp_path / "lake"),)), f"{tmp_path}/lake/main"))
    with local_files.open_new(place) as file:
        file.write(b"rows")

    assert (tmp_path / "disk" / "main" / "x").read_bytes() == b"rows"


def test_housekeeping_removes_no_file_of_others(lake: LakeBench):
    victim = lake.victim()
    plain = lake.path / "backup.tar"
    plain.write_text("not of the lake")
    [live] = lake.files()
    link(lake.outside, lake.path / "main" / "way_out")
    names = [
        (str(victim), False),
        (f"../outside/{victim.name}", True),
        (f"main/revenue/../../../outside/{victim.name}", True),
        (f"main/way_out/{victim.name}", True),
        (f"file://{victim}", False),
        (str(plain), False),
        ("backup.tar", True),
        (str(live), False),
        (f"main/revenue/{live.name}", True),
    ]
    lake.attack(*(SCHEDULE.format(path=path, relative=relative) for path, relative in names))

    lake.tidy()

    assert [victim.exists(), plain.exists(), live.exists()] == [True, True, True]
    lake.change()
    assert lake.sink_error() == ""


def test_housekeeping_still_removes_what_was_replaced(lake: LakeBench):
    gone = lake.path / "main" / "revenue" / "ducklake-gone.parquet"
    gone.write_text("replaced")
    other = lake.path / "main" / "revenue" / "ducklake-other.parquet"
    other.write_text("replaced")
    lake.attack(
        SCHEDULE.format(path=gone, relative=False),
        SCHEDULE.format(path=f"main/revenue/{other.name}", relative=True),
    )

    assert lake.tidy() == ""

    assert [gone.exists(), other.exists()] == [False, False]


@pytest.mark.parametrize(
    "attack",
    [
        "UPDATE lake.ducklake_metadata SET value = '{outside}/' WHERE key = 'data_path'",
        "UPDATE lake.ducklake_metadata SET value = '/' WHERE key = 'data_path'",
        "UPDATE lake.ducklake_schema SET path = '{outside}/', path_is_relative = false",
        "UPDATE lake.ducklake_schema SET path = '../outside/'",
        "UPDATE lake.ducklake_table SET path = '{outside}/', path_is_relative = false",
        "UPDATE lake.ducklake_table SET path = '../../outside/'",
        "UPDATE lake.ducklake_table SET path = 's3://elsewhere/', path_is_relative = false",
    ],
)
def test_nothing_is_written_outside_the_directory_on_record(lake: LakeBench, attack: str):
    lake.attack(attack.format(outside=lake.outside))

    lake.change()
    error = lake.tidy()

    assert lake.sink_error().startswith("ST708")
    assert error.startswith("ST708")
    assert list(lake.outside.iterdir()) == []


def test_rows_of_a_file_of_others_are_not_read(lake: LakeBench):
    lake.trickle.lake.attach_ducklake_table("shop.followed", "main.revenue")
    victim = lake.victim()
    before = lake.rows("SELECT * FROM shop.followed ORDER BY 1")
    for path, relative in (
        (str(victim), "false"),
        (f"../../../outside/{victim.name}", "true"),
        (f"file://{victim}", "false"),
        ("/dev/zero", "false"),
    ):
        lake.attack(RENAME.format(path=path, relative=relative))
        lake.attack(
            "INSERT INTO lake.ducklake_snapshot SELECT max(snapshot_id) + 1, now(),"
            " max(schema_version), max(next_catalog_id), max(next_file_id)"
            " FROM lake.ducklake_snapshot"
        )

        with pytest.raises(TrickleError) as raised:
            lake.trickle.create_stream_table("shop.copied", "SELECT * FROM shop.followed")
        assert raised.value.code == "ST708"
        with pytest.raises(TrickleError) as raised:
            lake.trickle.lake.attach_ducklake_table("shop.another", "main.revenue")
        assert raised.value.code == "ST708"
        read = LakeRead(lake.bench.dsn_of("owner"), "lake", QualifiedName("main", "revenue"))
        snapshot_id, columns = describe(read)
        with pytest.raises(LakePathError):
            plan(read, snapshot_id, columns)

    assert lake.rows("SELECT * FROM shop.followed ORDER BY 1") == before


def test_the_reader_in_spark_can_be_told_where_files_lie(lake: LakeBench):
    victim = lake.victim()
    lake.attack(
        RENAME.format(path=victim, relative="false"),
        "UPDATE lake.ducklake_metadata SET value = '/' WHERE key = 'data_path'",
    )
    options = {
        "dsn": lake.bench.dsn_of("owner"),
        "catalog_schema": "lake",
        "table": "revenue",
        "data_path": str(lake.path),
    }
    read = LakeRead.from_options(options)
    snapshot_id, columns = describe(read)

    with pytest.raises(LakePathError):
        plan(read, snapshot_id, columns)


def _modes(lake: LakeBench) -> set[str]:
    found = [lake.path, *lake.path.rglob("*")]
    return {f"{stat.S_IMODE(one.stat().st_mode):o}" for one in found}


def test_files_are_closed_to_other_users(lake: LakeBench):
    lake.change()

    assert _modes(lake) == {"600", "700"}


def test_files_are_opened_to_those_who_are_meant_to_read_them(bench: Bench, tmp_path: Path):
    with a_lake(bench, tmp_path, ducklake_file_mode="0644") as lake:
        assert _modes(lake) == {"644", "755"}


def test_a_sink_that_was_moved_on_purpose_is_turned_off_and_on(lake: LakeBench):
    moved = lake.path.parent / "moved"
    lake.path.rename(moved)
    lake.attack(f"UPDATE lake.ducklake_metadata SET value = '{moved}/' WHERE key = 'data_path'")

    lake.trickle.alter_stream_table(TABLE, sink="none")
    lake.trickle.alter_stream_table(TABLE, sink="ducklake")
    lake.change()

    assert lake.sink_error() == ""
