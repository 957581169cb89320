"""What a catalog or a file of the lake says of sizes is not believed before memory is taken."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pgtrickle.errors import LakeReadError
from pgtrickle.lake.files.roots import LakePath, LocalPath, Roots
from pgtrickle.lake.format.columns import SNAPSHOT_ID
from pgtrickle.lake.reader.files import read_row_ids
from pgtrickle.lake.reader.scan import ReadFile
from pgtrickle.lake.reader.source import group_files
from pgtrickle.lake.upkeep.merge_files import _cut, _has_shape
from pgtrickle.lake.upkeep.small_files import SmallFile
from pgtrickle.lake.write import parquet


def _place(path: Path) -> LakePath:
    return Roots((str(path.parent),)).place(str(path))


def test_a_footer_beyond_all_measure_is_not_read(tmp_path: Path):
    path = tmp_path / "x.parquet"
    with path.open("wb") as file:  # a gigabyte that takes no room
        file.truncate(2**30)
        file.seek(2**30 - 8)
        file.write((2**30 - 100).to_bytes(4, "little") + b"PAR1")

    with pytest.raises(LakeReadError), parquet.open_parquet(_place(path)):
        pass


def test_a_delete_file_is_measured_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "x.parquet"
    named = {"file_path": ["f"] * 11, "pos": range(11), SNAPSHOT_ID: [1] * 11}
    pq.write_table(pa.table({name: list(values) for name, values in named.items()}), path)
    assert parquet.read_positions(_place(path)).column_names == ["pos", SNAPSHOT_ID]
    monkeypatch.setattr(parquet, "_MOST_POSITIONS", 10)

    with pytest.raises(LakeReadError):
        parquet.read_deletes(_place(path), 1)


@pytest.mark.parametrize("said", [0, 1, 4, 2**62, None])
def test_a_file_of_another_length_than_the_catalog_says_is_not_merged(
    tmp_path: Path, said: int | None
):
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"a": [1, 2, 3]}), path)

    assert not _has_shape(SmallFile(1, _place(path), said, 0, 1, 1), [])  # type: ignore[arg-type]


def test_positions_outside_a_file_are_passed_over():
    file = SmallFile(7, LocalPath("/lake", "x"), 5, 0, 1, 1)

    assert [one.count for one in _cut(file, {-(2**62), -1, 3, 5, 2**62}, 0)] == [3, 1]


@pytest.mark.parametrize("first", [2**63 - 1, -(2**63)])
def test_row_ids_beyond_all_numbers_have_a_code(tmp_path: Path, first: int):
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"a": [1, 2, 3]}), path)
    file = ReadFile(1, _place(path), 10, checks_snapshots=False, first_row_id=first * 2)

    with pytest.raises(LakeReadError):
        list(read_row_ids(file, 1))


def test_sizes_of_the_catalog_do_not_put_all_files_into_one_task():
    sizes = [-(2**62), 2**62, None, 10]
    files = [
        ReadFile(number, LocalPath("/lake", "x"), size, checks_snapshots=False)  # type: ignore[arg-type]
        for number, size in enumerate(sizes * 100)
    ]

    assert sum(map(len, group_files(files))) == 400
    assert len(group_files(files)) > 50
