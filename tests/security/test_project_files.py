"""A folder that somebody else wrote reads nothing outside of it, and exhausts nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pgtrickle.errors import ProjectFileError, TrickleError
from pgtrickle.service.projects.files.folder import MOST_BYTES, Folder
from pgtrickle.service.projects.files.load import load_project
from tests.security.bench import Bench

HEAD = "project: shop\n"


def project(folder: Path, text: str = HEAD, **files: str) -> Path:
    (folder / "stream_tables").mkdir(exist_ok=True)
    (folder / "pgtrickle.yml").write_text(text)
    for name, query in files.items():
        (folder / "stream_tables" / f"{name}.sql").write_text(query)
    return folder


@pytest.mark.parametrize("path", ["..", "../elsewhere", "/etc", "a/../../b", "a/\\0"])
def test_path_out_of_the_project_is_refused(tmp_path: Path, path: str) -> None:
    project(tmp_path, f'{HEAD}paths: ["{path}"]')
    with pytest.raises(ProjectFileError, match="not a path within"):
        load_project(tmp_path)


def test_links_lead_nowhere(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.sql").write_text("SELECT 'secret'")
    inside = tmp_path / "inside"
    inside.mkdir()
    project(inside)
    link = inside / "stream_tables" / "a.sql"
    link.symlink_to(outside / "secret.sql")
    with pytest.raises(ProjectFileError, match=r"a\.sql cannot be read"):
        load_project(inside)

    link.unlink()
    (inside / "stream_tables" / "folder").symlink_to(outside)
    assert load_project(inside).tables == ()
    (inside / "linked").symlink_to(outside)
    for path in ("linked", "linked/."):
        project(inside, f"{HEAD}paths: [{path}]")
        with pytest.raises(ProjectFileError, match="outside of the project"):
            load_project(inside)
    with pytest.raises(ProjectFileError, match="outside of the project"):
        Folder(inside).read("linked/secret.sql")

    (inside / "pgtrickle.yml").unlink()
    (inside / "pgtrickle.yml").symlink_to(outside / "secret.sql")
    with pytest.raises(ProjectFileError, match=r"pgtrickle\.yml cannot be read"):
        load_project(inside)


def test_named_pipe_makes_nobody_wait(tmp_path: Path) -> None:
    os.mkfifo(project(tmp_path) / "stream_tables" / "pipe.sql")
    with pytest.raises(ProjectFileError, match="plain file"):
        load_project(tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (" " * (MOST_BYTES + 1), "larger than"),
        ("a: &a [1]\nb: *a", "references"),
        ("a: !!python/object/apply:os.system ['touch x']", "could not determine a constructor"),
        ("[" * 100_000, "cannot be read as YAML"),
        ("project: a\nproject: b", "stands twice"),
        ("project: [shop]", "a text is missing"),
        ("project: shop\nhooks: {on_run: rm}", "hooks: this version knows no such entry"),
        ("\x00", "cannot be read as YAML"),
        ("- project", "a mapping is missing"),
        ("", "a mapping is missing"),
    ],
)
def test_hostile_yaml_is_refused(tmp_path: Path, text: str, said: str) -> None:
    project(tmp_path, text)
    with pytest.raises(ProjectFileError) as caught:
        load_project(tmp_path)
    assert said in f"{caught.value} {caught.value.detail}"


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (project(tmp_path) / "stream_tables" / "a.sql").write_bytes(b"SELECT '\xff'")
    with pytest.raises(ProjectFileError, match="UTF-8"):
        load_project(tmp_path)


def test_folders_are_not_followed_without_end(tmp_path: Path) -> None:
    project(tmp_path).joinpath("stream_tables", *["a"] * 30).mkdir(parents=True)
    with pytest.raises(ProjectFileError, match="nested"):
        load_project(tmp_path)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT {{ env('HOME') }}",
        "{% for x in y %}SELECT 1",
        "SELECT {{ self.__init__.__globals__ }}",
        "SELECT {{ var('none') }}",
        "SELECT * FROM {{ ref('none') }}",
        "{# a #} SELECT 1",
    ],
)
def test_templates_have_three_words_and_no_logic(tmp_path: Path, query: str) -> None:
    with pytest.raises(ProjectFileError):
        load_project(project(tmp_path, a=query))


def test_array_of_arrays_is_no_template(tmp_path: Path) -> None:
    query = "SELECT '{{1,2},{3,4}}'::int[] AS a, '{{\"a\"}}' AS b"
    assert load_project(project(tmp_path, a=query)).tables[0].query == query


HOSTILE = "'; DROP TABLE orders; --"


def test_values_and_names_are_quoted(tmp_path: Path) -> None:
    words = f'{HEAD}schema: "a\\".b; --"\nvariables: {{x: "{HOSTILE}"}}\n'
    project(
        tmp_path,
        words,
        a="SELECT {{ var('x') }} AS x",
        b="SELECT * FROM {{ ref('a') }}, {{ source('\"s\"\"; --\".t') }}",
    )
    first, second = load_project(tmp_path).tables
    assert first.query == "SELECT '''; DROP TABLE orders; --' AS x"
    assert second.query == 'SELECT * FROM "a"".b; --"."a", "s""; --"."t"'


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT 1; DROP TABLE shop.orders",
        "DROP TABLE shop.orders",
        "DELETE FROM shop.orders RETURNING *",
    ],
)
def test_file_with_another_statement_is_refused(
    bench: Bench, tmp_path: Path, statement: str
) -> None:
    project(tmp_path, f"{HEAD}schema: shop", a=statement)
    with bench.trickle() as trickle, pytest.raises(TrickleError):
        trickle.projects.apply_project(tmp_path)
    assert bench.value("owner", "SELECT count(*) FROM shop.orders") == 3


def test_ordinary_owner_applies_a_project_and_nobody_else_may(bench: Bench, tmp_path: Path) -> None:
    query = "SELECT region, sum(amount) AS total FROM shop.orders GROUP BY region"
    above = "SELECT max(total) AS total FROM {{ ref('a') }}"
    project(tmp_path, f"{HEAD}schema: shop", a=query, b=above)
    with bench.trickle() as trickle:
        done = trickle.projects.apply_project(tmp_path)
        trickle.grant_access(bench.roles["attacker"], "operator")
    assert [one.status for one in done] == ["created", "created"]
    bench.run("admin", "GRANT USAGE ON SCHEMA shop TO {attacker}")
    with bench.trickle("attacker") as guest:
        for verb in (guest.projects.plan_project, guest.projects.apply_project):
            with pytest.raises(TrickleError) as caught:
                verb(tmp_path)
            assert caught.value.code in {"ST206", "ST215", "ST303"}
