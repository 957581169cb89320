"""Who runs the server and who may use it: root, its stand-in, ordinary users, strangers."""

from __future__ import annotations

import os
import pwd
import shutil
from pathlib import Path

import psycopg
import pytest

from pgtrickle.embedded.account import STAND_INS, choose_account
from pgtrickle.embedded.binaries import find_binaries
from pgtrickle.embedded.home import check_own_directory, open_home
from pgtrickle.embedded.private_copy import copy_for_everyone
from pgtrickle.embedded.server import start_embedded
from pgtrickle.errors import EmbeddedServerError
from tests.embedded.companions import run_as
from tests.embedded.conftest import stop_whatever_runs

only_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to change accounts")
# Newer Pythons warn of threads at a fork; none of ours is needed in the child.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")

ORDINARY = "daemon"


def connect_error(dsn):
    try:
        psycopg.connect(dsn, connect_timeout=5).close()
    except psycopg.OperationalError as error:
        return str(error)
    return "connected"


def use_a_server(directory, programs):
    os.environ["PGTRICKLE_PG_BINDIR"] = programs
    with start_embedded(Path(directory)) as server, psycopg.connect(server.dsn) as connection:
        owner = server.data_directory.stat().st_uid
        return connection.execute("SELECT current_user::text, %s", [owner]).fetchone()


@pytest.fixture
def programs(home):
    return str(find_binaries(choose_account(home / "data")).directory)


def test_owner_may_connect_as_any_role(home):
    with start_embedded(home) as server:
        with psycopg.connect(server.dsn) as connection:
            connection.execute("CREATE ROLE visitor LOGIN")

        with psycopg.connect(server.dsn, user="visitor") as connection:
            assert connection.execute("SELECT current_user::text").fetchone() == ("visitor",)


@only_root
def test_root_runs_the_server_under_an_unprivileged_account(home):
    with start_embedded(home) as server:
        uid = Path(f"/proc/{server.pid}").stat().st_uid

    assert pwd.getpwuid(uid).pw_name in STAND_INS


@only_root
def test_starting_as_root_changes_no_parent_directory_and_no_account(home):
    parents = list(home.parents)
    before = [(parent.stat().st_mode, parent.stat().st_uid) for parent in parents]
    accounts = Path("/etc/passwd").read_bytes()

    start_embedded(home).stop()

    assert [(parent.stat().st_mode, parent.stat().st_uid) for parent in parents] == before
    assert Path("/etc/passwd").read_bytes() == accounts


@only_root
def test_another_user_cannot_reach_the_socket(home):
    with start_embedded(home) as server:
        answer = run_as(ORDINARY, connect_error, server.dsn)

    assert "Permission denied" in str(answer)


@only_root
def test_another_program_of_the_stand_in_is_not_welcome(home):
    with start_embedded(home) as server:
        stand_in = pwd.getpwuid(server.data_directory.stat().st_uid).pw_name
        answer = run_as(stand_in, connect_error, server.dsn)

    assert "Peer authentication failed" in str(answer)


@only_root
def test_ordinary_user_runs_the_server_directly(home, programs):
    account = pwd.getpwnam(ORDINARY)
    home.mkdir()
    os.chown(home, account.pw_uid, account.pw_gid)

    assert run_as(ORDINARY, use_a_server, str(home), programs) == ("postgres", account.pw_uid)


@only_root
def test_root_and_the_owner_of_a_project_take_turns(home, programs):
    account = pwd.getpwnam(ORDINARY)
    home.mkdir()
    os.chown(home, account.pw_uid, account.pw_gid)
    expected = ("postgres", account.pw_uid)

    with start_embedded(home) as server:
        assert server.data_directory.stat().st_uid == account.pw_uid
        assert run_as(ORDINARY, use_a_server, str(home), programs) == expected
    assert run_as(ORDINARY, use_a_server, str(home), programs) == expected


@only_root
def test_ordinary_user_is_told_that_the_server_is_roots(home, programs):
    start_embedded(home).stop()

    answer = run_as(ORDINARY, use_a_server, str(home), programs)

    assert str(answer).startswith("EmbeddedServerError: cannot keep an embedded server in")


@only_root
def test_data_moves_out_of_a_project_that_the_stand_in_cannot_enter(tmp_path):
    home = tmp_path / "home"
    tmp_path.chmod(0o700)

    with start_embedded(home) as server, psycopg.connect(server.dsn) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
    with start_embedded(home) as server, psycopg.connect(server.dsn) as connection:
        row = connection.execute("SELECT answer FROM kept").fetchone()

    base = server.data_directory.parent
    assert row == (42,)
    assert (home / "location").read_text().startswith(f"{base}\n")
    stop_whatever_runs(home)
    shutil.rmtree(base)


@only_root
def test_location_that_points_anywhere_else_is_refused(home):
    (open_home(home).directory / "location").write_text("/etc\n")

    with pytest.raises(EmbeddedServerError, match='cannot keep an embedded server in "/etc"'):
        start_embedded(home)

    (home / "location").unlink()


@only_root
def test_link_in_place_of_our_file_is_replaced_and_not_followed(home, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    home.mkdir(mode=0o711)
    for name in ("users.json", "pg_hba.conf", "pg_ident.conf"):
        (home / name).symlink_to(victim)

    start_embedded(home).stop()

    assert victim.read_text() == "untouched"


def test_directory_that_others_can_write_to_is_not_trusted(tmp_path):
    tmp_path.chmod(0o777)

    with pytest.raises(EmbeddedServerError, match="cannot trust"):
        check_own_directory(tmp_path)


@only_root
def test_programs_that_only_root_can_read_are_copied(tmp_path, home):
    account = choose_account(home / "data")
    tmp_path.chmod(0o700)
    program = tmp_path / "site" / "package" / "bin" / "tool"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho ran\n")
    program.chmod(0o700)

    copy = copy_for_everyone(tmp_path / "site", [tmp_path / "site" / "package"])
    answer = account.run([str(copy / "package" / "bin" / "tool")])
    shutil.rmtree(copy)

    assert answer.stdout == "ran\n"
