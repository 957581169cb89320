"""The files that are written from a database say what the database has."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgtrickle.errors import SettingError
from tests.labs.circles import EDGES, close
from tests.labs.lab import Lab
from tests.service.lifecycle.dumping import make_everything, opened, prepare, two_roles
from tests.service.projects import folders
from tests.service.projects.folders import actions


def test_project_written_from_a_database_agrees_with_it(database: str, tmp_path: Path) -> None:
    folder = tmp_path / "all"
    with two_roles(database) as (reads, asks), opened(database) as lab:
        prepare(lab)
        make_everything(lab, reads, asks)
        lab.run("CREATE SCHEMA app", "CREATE TABLE app.t (id int PRIMARY KEY, k int)")
        lab.trickle.create_stream_table("app.low", "SELECT id, k FROM app.t", schedule="3m")
        lab.run("SET search_path = app")
        lab.trickle.create_stream_table(
            "app.high", "SELECT low.k, count(*) AS n FROM app.low GROUP BY low.k"
        )
        projects = lab.trickle.projects
        written = projects.import_project(folder, project="all")

        assert len(written.files) == 7
        assert written.notes == ("the view public.by_region reads stream tables: make it yourself",)
        assert "{{ ref('app.low') }}" in (folder / "stream_tables" / "high.sql").read_text()
        assert set(actions(projects.plan_project(folder)).values()) == {"adopt"}
        projects.apply_project(folder)
        assert projects.plan_project(folder).pending == ()
        assert projects.diff_project(folder) == []
        with pytest.raises(SettingError, match="is a project already"):
            projects.import_project(folder)


def test_some_are_written_and_made_in_another_schema(postgres_lab: Lab, tmp_path: Path) -> None:
    lab, projects = postgres_lab, postgres_lab.trickle.projects
    folders.prepare(lab)
    projects.apply_project(folders.write(tmp_path))
    folder = tmp_path / "some"
    written = projects.import_project(folder, names=["big", "by_region"])
    text = (folder / "pgtrickle.yml").read_text()
    (folder / "pgtrickle.yml").write_text(f"{text}targets: {{there: {{schema_prefix: there_}}}}")

    assert written.files == (
        "pgtrickle.yml", "stream_tables/big.sql", "stream_tables/by_region.sql"
    )  # fmt: skip
    made = projects.apply_project(folder)
    assert [(str(one.name), one.status) for one in made] == [
        ("there_public.big", "created"), ("there_public.by_region", "created")
    ]  # fmt: skip
    same = "SELECT * FROM public.by_region EXCEPT ALL SELECT * FROM there_public.by_region"
    assert lab.rows(same) == []
    sources = "SELECT source_table FROM pgtrickle.list_sources('there_public.by_region')"
    assert [name for (name,) in lab.rows(sources)] == ["there_public.big"]
    with pytest.raises(SettingError, match="no stream table"):
        projects.import_project(tmp_path / "none", names=["nothing"])


def test_circle_is_left_out_with_a_word(postgres_lab: Lab, tmp_path: Path) -> None:
    postgres_lab.run(EDGES)
    close(postgres_lab, 2)
    written = postgres_lab.trickle.projects.import_project(tmp_path / "all")

    assert len([one for one in written.notes if "forms a circle" in one]) == 2
    assert written.files == ("pgtrickle.yml",)
