"""A cluster's secret comes from a file that nobody else can read, and goes onto no command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgtrickle.errors import SettingError
from pgtrickle.spark.sessions.authentication import SECRET, authentication, cluster_authentication
from pgtrickle.spark.sessions.java import Java
from pgtrickle.spark.sessions.pair import SparkSessions

_MASTER = "spark://127.0.0.1:7077"
_TEXT = "correct horse battery"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.touch(mode=0o600)
    path.write_text(_TEXT + "\n")
    return path


def test_local_master_makes_its_own_secret(file: Path) -> None:
    assert authentication("local[2]")["spark.authenticate"] == "true"
    assert cluster_authentication("local[2]", str(file)) == ({}, {})


def test_secret_of_a_cluster_is_kept_apart_from_the_settings(file: Path) -> None:
    sessions = SparkSessions(master=_MASTER, secret_file=str(file), class_archive=False)

    settings, secrets = sessions._context_settings(Java(Path("java"), "17"))

    assert secrets == {SECRET: _TEXT}
    assert settings["spark.authenticate"] == "true"
    assert _TEXT not in str(settings)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_file_that_others_can_read_is_refused(file: Path, mode: int) -> None:
    file.chmod(mode)

    with pytest.raises(SettingError) as caught:
        cluster_authentication(_MASTER, str(file))

    assert _TEXT not in f"{caught.value} {caught.value.detail} {caught.value.hint}"


@pytest.mark.parametrize("text", ["", "short", "x" * 5000])
def test_file_without_a_secret_is_refused(file: Path, text: str) -> None:
    file.write_text(text)

    with pytest.raises(SettingError):
        cluster_authentication(_MASTER, str(file))


def test_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError):
        cluster_authentication(_MASTER, str(tmp_path / "nowhere"))


def test_settings_of_the_caller_come_first() -> None:
    sessions = SparkSessions(
        master="local[1]", class_archive=False, settings={"spark.authenticate": "false"}
    )

    settings, _ = sessions._context_settings(Java(Path("java"), "17"))

    assert settings["spark.authenticate"] == "false"
