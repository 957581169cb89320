"""``pgtrickle config``: show settings and where they come from; change those of the database."""

from __future__ import annotations

from tests.cli.conftest import CommandLine


def test_lists_every_setting(cli: CommandLine):
    answer = cli("config", "--json")

    found = {one["name"]: one for one in answer.json["settings"]}
    assert found["trim_rows"]["source"] == "default"
    assert found["trim_rows"]["unit"] == "rows"
    assert found["dsn"]["value"] == "***"
    assert (found["dsn"]["needs_restart"], found["trim_rows"]["needs_restart"]) == (True, False)


def test_tells_which_settings_need_a_restart(cli: CommandLine):
    assert "needed" in cli("config", "spark_driver_memory").stdout
    assert "needed" not in cli("config", "trim_rows").stdout


def test_sets_and_takes_back(cli: CommandLine):
    cli("config", "trim_rows", "7")
    [changed] = cli("config", "trim_rows", "--json").json["settings"]
    [again] = cli("config", "trim_rows", "--reset", "--json").json["settings"]
    [after] = cli("config", "trim_rows", "--json").json["settings"]

    assert (changed["value"], changed["source"]) == ("7", "table")
    assert after["value"] == "1000000"
    assert again["name"] == "trim_rows"


def test_refuses_what_cannot_be(cli: CommandLine):
    for arguments in (("trim_rows", "many"), ("no_such_setting",), ("no_such_setting", "1")):
        answer = cli("config", *arguments, "--json")
        assert (answer.exit_code, answer.error["code"]) == (1, "ST501")


def test_reset_wants_a_name(cli: CommandLine):
    assert cli("config", "--reset").exit_code == 2
