"""Dashboards and alerts, as files: promtool reads and evaluates them."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from pgtrickle.model.metrics import OF_A_RELAY, OF_EACH_DAEMON, OF_SPARK, OF_THE_LEADER
from tests.monitoring.recorded import CASES, Case, Recorded
from tests.relay.servers import need
from tools.monitoring.dashboards import DASHBOARDS

MONITORING = Path(__file__).parents[2] / "monitoring"
RULES = MONITORING / "prometheus" / "rules.yml"
FILES = sorted((MONITORING / "grafana").glob("*.json"))
METRICS = {one.name: one for one in (*OF_EACH_DAEMON, *OF_SPARK, *OF_THE_LEADER, *OF_A_RELAY)}


def rules() -> list[dict[str, Any]]:
    [group] = yaml.safe_load(RULES.read_text())["groups"]
    return list(group["rules"])


def panels(dashboard: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for one in dashboard["panels"] if one["type"] != "row"]


def test_there_is_one_file_for_each_dashboard():
    assert [one.stem for one in FILES] == sorted(one.file for one in DASHBOARDS)


@pytest.mark.parametrize("file", FILES, ids=lambda one: str(one.stem))
def test_dashboard_is_one_that_grafana_11_imports(file: Path):
    found = json.loads(file.read_text())

    assert found["schemaVersion"] >= 39
    assert found["id"] is None  # Grafana gives it one
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,40}", found["uid"])
    assert found["title"]
    variables = {one["name"]: one for one in found["templating"]["list"]}
    assert (variables["datasource"]["type"], variables["datasource"]["query"]) == (
        "datasource",
        "prometheus",
    )
    drawn = found["panels"]
    assert len({one["id"] for one in drawn}) == len(drawn)
    for one in panels(found):
        assert one["type"] in {"timeseries", "stat"}
        assert one["title"]
        assert one["description"]
        assert one["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert len({target["refId"] for target in one["targets"]}) == len(one["targets"])
        used = {
            name for target in one["targets"] for name in re.findall(r"\$(\w+)", target["expr"])
        }
        assert used <= {*variables, "__rate_interval"}
        first, *others = one["fieldConfig"]["defaults"]["thresholds"]["steps"]
        assert first["value"] is None
        assert others == sorted(others, key=lambda step: step["value"])


@pytest.mark.parametrize("file", FILES, ids=lambda one: str(one.stem))
def test_panels_do_not_overlap(file: Path):
    taken: set[tuple[int, int]] = set()
    for one in json.loads(file.read_text())["panels"]:
        at = one["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert max(x for x, _ in cells) < 24
        assert not cells & taken
        taken |= cells


@pytest.mark.parametrize("file", FILES, ids=lambda one: str(one.stem))
def test_panels_use_labels_that_their_metrics_have(file: Path):
    text = " ".join(
        target["expr"] for one in panels(json.loads(file.read_text())) for target in one["targets"]
    )
    selected = re.findall(r"(pgtrickle_\w+?)(?:_bucket)?\{([^}]*)\}", text)

    assert selected
    for name, matchers in selected:
        labels = {"database", *METRICS[name].labels}
        assert set(re.findall(r"(\w+)=~?\"", matchers)) <= labels, name


def test_every_metric_is_on_a_dashboard():
    shown = "".join(file.read_text() for file in FILES)

    assert {name for name in METRICS if name not in shown} == set()


def test_promtool_takes_the_rules():
    done = subprocess.run(
        [
            need("promtool", "prometheus"),
            "check",
            "rules",
            "--lint=all",
            "--lint-fatal",
            str(RULES),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(CASES)} rules found" in done.stdout


def test_each_alert_is_tested_and_says_what_to_do():
    assert [one["alert"] for one in rules()] == list(CASES)
    for one in rules():
        assert one["labels"]["severity"] in {"critical", "warning"}
        assert one["annotations"]["summary"]
        assert one["annotations"]["description"]


def test_each_alert_fires_on_what_was_recorded_and_else_not(tmp_path: Path):
    tests = [
        one
        for name, case in CASES.items()
        for one in (_alarming(name, case), _harmless(name, case))
    ]
    file = tmp_path / "recorded.yml"
    file.write_text(
        json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "30s", "tests": tests})
    )
    done = subprocess.run(
        [need("promtool", "prometheus"), "test", "rules", str(file)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _alarming(name: str, case: Case) -> dict[str, Any]:
    before, then = case.fires_after * 60 - 30, case.fires_after * 60
    return _test(name, case.alarming, [(f"{before:.0f}s", 0), (f"{then:.0f}s", 1)])


def _harmless(name: str, case: Case) -> dict[str, Any]:
    return _test(name, case.harmless, [(f"{minute}m", 0) for minute in (1, 5, 12, 25)])


def _test(name: str, recorded: Recorded, expected: list[tuple[str, int]]) -> dict[str, Any]:
    firing = f'count(ALERTS{{alertname="{name}", alertstate="firing"}}) or vector(0)'
    return {
        "interval": "30s",
        "input_series": [{"series": one, "values": values} for one, values in recorded.items()],
        "promql_expr_test": [
            {"expr": firing, "eval_time": at, "exp_samples": [{"value": number}]}
            for at, number in expected
        ],
    }
