"""The files of a project are read as they are meant, or refused with what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgtrickle.errors import ProjectFileError
from pgtrickle.service.projects.files.load import load_project
from tests.service.projects.folders import FILES, PROJECT, write


def refusal(folder: Path, **more: object) -> str:
    with pytest.raises(ProjectFileError) as caught:
        load_project(folder, **more)  # type: ignore[arg-type]
    return f"{caught.value} {caught.value.detail} {caught.value.hint}"


def test_stream_tables_stand_in_the_order_in_which_they_can_be_made(tmp_path: Path) -> None:
    found = load_project(write(tmp_path, a="SELECT * FROM {{ ref('top') }}"))

    assert [one.name.name for one in found.tables] == ["big", "by_region", "top", "a"]
    assert found.tables[0].query.endswith("WHERE amount >= 10")
    assert [one.name for one in found.tables[0].tests] == [
        "unique_id", "not_null_id", "not_null_region"
    ]  # fmt: skip


def test_one_file_may_hold_all(tmp_path: Path) -> None:
    (tmp_path / "pgtrickle.yml").write_text(
        "project: small\nstream_tables:\n"
        "  b: {query: \"SELECT * FROM {{ ref('app.a') }}\", tags: [x]}\n"
        "  a: {schema: app, query: SELECT 1 AS one, refresh_mode: FULL}\n"
    )
    found = load_project(tmp_path)

    assert [(str(one.name), one.query) for one in found.tables] == [
        ("app.a", "SELECT 1 AS one"), ("public.b", 'SELECT * FROM "app"."a"')
    ]  # fmt: skip


def test_target_replaces_schemas_of_sources_and_values(tmp_path: Path) -> None:
    project = PROJECT.replace("{least: 0}", "{least: 0}, sources: {raw: raw_dev}")
    write(tmp_path, project, a="SELECT * FROM {{ source('raw.orders') }}")

    assert load_project(tmp_path, "dev").tables[0].query == 'SELECT * FROM "raw_dev"."orders"'
    assert load_project(tmp_path).tables[0].query == 'SELECT * FROM "raw"."orders"'


def test_what_is_not_enabled_is_left_out(tmp_path: Path) -> None:
    text = "---\nenabled: \"{{ var('wanted') }}\"\n---\nSELECT 1 AS one"
    write(tmp_path, f"{PROJECT}".replace("least: 10", "least: 10, wanted: false"), a=text)

    assert "a" not in {one.name.name for one in load_project(tmp_path).tables}
    given = load_project(tmp_path, given={"wanted": "true"})
    assert "a" in {one.name.name for one in given.tables}


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"a": "SELECT 1 FROM {{ ref('b') }}", "b": "SELECT 1 FROM {{ ref('a') }}"}, "circle"),
        ({"a": "SELECT 1 FROM {{ ref('a') }}"}, "circle"),
        ({"a": "---\nname: big\n---\nSELECT 1"}, 'two stream tables "public.big"'),
        ({"a": "---\nschedule: often\n---\nSELECT 1"}, "stream_tables/a.sql: "),
        ({"a": "---\nrefresh_mode: EAGER\n---\nSELECT 1"}, "EAGER"),
        ({"a": "---\nschedul: 5m\n---\nSELECT 1"}, "schedul: this version knows no such entry"),
        ({"a": "---\nschedule: 5m\nSELECT 1"}, "no line that ends"),
        ({"a": "---\nducklake_table: x\n---\nSELECT 1"}, "belongs to a sink"),
        ({"a": "---\ntests: [{unique: []}]\n---\nSELECT 1"}, "nothing is in the list"),
        ({"a": "---\ntests: [{uniq: id}]\n---\nSELECT 1"}, "one of these is needed"),
        ({"a": "---\ntests: [{unique: id}, {unique: id}]\n---\nSELECT 1"}, "two tests"),
        ({"a": "---\nsla: soon\n---\nSELECT 1"}, "soon"),
        ({"a": "  ;  "}, "has no query"),
        ({"a" * 70: "SELECT 1"}, "63 bytes"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, files: dict[str, str], said: str) -> None:
    write(tmp_path, **files)
    assert said in refusal(tmp_path)


def test_target_has_to_be_one_of_the_project(tmp_path: Path) -> None:
    write(tmp_path)
    assert "dev, prod" in refusal(tmp_path, target="test")
    write(tmp_path, PROJECT.replace(", default: true", "").replace("{default: true}", "{}"))
    assert "none was chosen" in refusal(tmp_path)


def test_variable_has_to_be_declared_and_of_its_type(tmp_path: Path) -> None:
    write(tmp_path)
    assert "no variable" in refusal(tmp_path, given={"most": "1"})
    assert "cannot be" in refusal(tmp_path, given={"least": "few"})
    assert load_project(tmp_path, given={"least": "-5"}).tables[0].query.endswith(">= (-5)")


def test_folder_has_to_be_a_project(tmp_path: Path) -> None:
    assert "pgtrickle init-project" in refusal(tmp_path)
    assert "pgtrickle init-project" in refusal(tmp_path / "none")
    (tmp_path / "file").write_text("")
    assert "not a folder" in refusal(tmp_path / "file")


def test_windows_line_ends_and_byte_order_marks_are_read(tmp_path: Path) -> None:
    text = "\ufeff" + FILES["big"].replace("\n", "\r\n")
    write(tmp_path)
    (tmp_path / "stream_tables" / "big.sql").write_bytes(text.encode())
    assert load_project(tmp_path).tables[0].owner == "Ann"
