"""What deploys the daemon fits the daemon; ``make deploy-check`` asks the programs that read it."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml
from typer.testing import CliRunner

from pgtrickle.cli.main import app
from pgtrickle.cli.system.demo import DemoName
from pgtrickle.model.version import VERSION
from pgtrickle.settings import Settings
from tools.check_deploy import CHART, DEPLOY, MANIFESTS, UNIT, verify_unit

CONTAINERFILE = (DEPLOY / "container" / "Containerfile").read_text()
COMPOSE = {one.name: one for one in sorted((DEPLOY / "container").glob("*compose.yaml"))}
# What the image of PostgreSQL reads: https://hub.docker.com/_/postgres
OF_POSTGRES = {"POSTGRES_DB", "POSTGRES_PASSWORD_FILE"}


def documents(path: Path) -> list[Any]:
    return list(yaml.safe_load_all(path.read_text()))


def manifests(kind: str) -> list[Any]:
    return [one for one in documents(MANIFESTS) if one["kind"] == kind]


def takes(arguments: list[str]) -> bool:
    """Tell whether the command line takes these arguments; --help keeps it from acting."""
    return CliRunner().invoke(app, [*arguments, "--help"]).exit_code == 0


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze")
def test_unit_is_one_that_systemd_reads_without_a_word() -> None:
    text = UNIT.read_text()
    assert list(verify_unit(text)) == []
    assert list(verify_unit(text.replace("Restart=", "Restrat="))) != []


def test_every_command_of_the_deployments_is_one() -> None:
    [started] = re.findall(r"^ExecStart=\S+ (.*) \$", UNIT.read_text(), re.MULTILINE)
    [options] = re.findall(r"^PGTRICKLE_RUN_OPTIONS=(.*)$", (UNIT.parent / "shop.env").read_text(),
                           re.MULTILINE)  # fmt: skip
    assert takes(shlex.split(f"{started} {options}"))
    [command] = re.findall(r"^CMD (\[.*\])$", CONTAINERFILE, re.MULTILINE)
    assert takes(yaml.safe_load(command))
    [deployment] = manifests("Deployment")
    pod = deployment["spec"]["template"]["spec"]
    containers = {one["name"]: one for one in [*pod["containers"], *pod["initContainers"]]}
    assert takes(containers["daemon"]["args"])
    assert takes(containers["init"]["args"])


def services(file: str) -> dict[str, Any]:
    return yaml.safe_load(COMPOSE[file].read_text())["services"]  # type: ignore[no-any-return]


def ours() -> list[Any]:
    """Return the services of the files of Compose that are made from our image."""
    return [one for file in COMPOSE for one in services(file).values() if "build" in one]


def test_every_command_of_compose_is_one() -> None:
    daemon = services("compose.yaml")["daemon"]
    [script] = daemon["command"]
    lines = [line.removeprefix("exec ") for line in script.splitlines()]
    typed = [shlex.split(line)[1:] for line in lines if line.startswith("pgtrickle ")]
    assert [one[0] for one in typed] == ["init", "run"]
    assert all(takes(one) for one in typed)
    # The shell that reads them can: -n looks without acting.
    assert daemon["entrypoint"][:1] == ["/bin/sh"]
    shell = [*daemon["entrypoint"], script.replace("$$", "$")]
    subprocess.run([shell[0], "-n", *shell[1:]], check=True)

    demo = services("demo.compose.yaml")["demo"]
    assert demo["entrypoint"] == ["pgtrickle", "demo"]
    assert takes([*demo["entrypoint"][1:], *demo["command"]])
    said = COMPOSE["demo.compose.yaml"].read_text()
    named = re.findall(r"--rm demo (\w+)$|In place of (\w+): (.*)\. Each", said, re.MULTILINE)
    words = set(re.findall(r"\w+", " ".join(" ".join(one) for one in named))) - {"or"}
    assert words == {one.value for one in DemoName}


def test_every_variable_of_compose_is_read_by_somebody() -> None:
    libpq = {one.envvar.decode() for one in psycopg.pq.Conninfo.get_defaults() if one.envvar}
    settings = {f"PGTRICKLE_{name.upper()}" for name in Settings.__dataclass_fields__}
    for one in ours():
        assert set(one.get("environment", {})) <= libpq | settings
    database = services("compose.yaml")["postgres"]
    assert set(database["environment"]) == OF_POSTGRES


def test_what_compose_builds_from_is_there() -> None:
    extras = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    for one in ours():
        context = (DEPLOY / "container" / one["build"]["context"]).resolve()
        assert (context / one["build"]["dockerfile"]).read_text() == CONTAINERFILE
        for copied in re.findall(r"^COPY ((?:\w\S* )+)\./", CONTAINERFILE, re.MULTILINE):
            assert all((context / name).exists() for name in copied.split())
        arguments = one["build"].get("args", {})
        for name in arguments:
            assert re.search(rf"^ARG {name}\b", CONTAINERFILE, re.MULTILINE)
        assert set(arguments.get("EXTRAS", "lake").split(",")) <= set(extras)


def test_what_compose_refers_to_is_in_the_same_file() -> None:
    for path in COMPOSE.values():
        whole = yaml.safe_load(path.read_text())
        for one in whole["services"].values():
            assert set(one.get("secrets", [])) <= set(whole.get("secrets", {}))
            mounted = {volume.partition(":")[0] for volume in one.get("volumes", [])}
            assert mounted <= set(whole.get("volumes", {}))
            for other, how in one.get("depends_on", {}).items():
                assert how == {"condition": "service_healthy"}
                assert "healthcheck" in whole["services"][other]


def test_probes_ask_the_port_on_which_the_daemon_answers() -> None:
    [deployment] = manifests("Deployment")
    [daemon] = deployment["spec"]["template"]["spec"]["containers"]
    [port] = [one["containerPort"] for one in daemon["ports"] if one["name"] == "health"]
    assert str(port) == daemon["args"][daemon["args"].index("--health-port") + 1]
    paths = {name: daemon[name]["httpGet"]["path"] for name in daemon if name.endswith("Probe")}
    assert paths == {"startupProbe": "/live", "livenessProbe": "/live", "readinessProbe": "/ready"}


def test_nothing_runs_as_root_or_with_powers() -> None:
    [deployment] = manifests("Deployment")
    pod = deployment["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["automountServiceAccountToken"] is False
    for one in [*pod["containers"], *pod["initContainers"]]:
        context = one["securityContext"]
        assert context["readOnlyRootFilesystem"]
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert not context["allowPrivilegeEscalation"]
    assert re.search(r"^USER 10001:10001$", CONTAINERFILE, re.MULTILINE)
    assert CONTAINERFILE.index("USER") < CONTAINERFILE.index("ENTRYPOINT")


def test_no_password_stands_in_a_variable_or_an_argument() -> None:
    compose = (DEPLOY / "container" / "compose.yaml").read_text()
    for text in (MANIFESTS.read_text(), compose, UNIT.parent.joinpath("shop.env").read_text()):
        for dsn in re.findall(r"postgresql://\S+", text):
            assert not re.match(r"postgresql://[^@/]*:[^@/]+@", dsn)
    assert "PGPASSWORD" not in MANIFESTS.read_text() + compose


def test_settings_of_the_deployments_exist() -> None:
    known = {f"PGTRICKLE_{name.upper()}" for name in Settings.__dataclass_fields__}
    named = {
        name
        for path in DEPLOY.rglob("*")
        if path.is_file()
        for name in re.findall(r"\bPGTRICKLE_[A-Z_]+\b", path.read_text())
    }
    assert named - known - {"PGTRICKLE_RUN_OPTIONS"} == set()


def test_versions_are_pinned_and_those_of_the_package() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == VERSION.partition("-")[0]
    assert re.search(r"^ARG BASE=\S+:\d+\.\d+\.\d+-", CONTAINERFILE, re.MULTILINE)
    images = [
        one["image"]
        for one in yaml.safe_load((DEPLOY / "container" / "compose.yaml").read_text())[
            "services"
        ].values()
    ]
    assert "docker.io/library/postgres:18.1-bookworm" in images
    assert not any(one.endswith(":latest") for one in images)


def test_two_daemons_survive_a_drained_node() -> None:
    [deployment] = manifests("Deployment")
    [budget] = manifests("PodDisruptionBudget")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert deployment["spec"]["replicas"] > budget["spec"]["minAvailable"] == 1
    for kind in ("PodDisruptionBudget", "Service", "NetworkPolicy"):
        [one] = manifests(kind)
        spec = one["spec"]
        selector = spec.get("podSelector", spec.get("selector"))
        assert (selector.get("matchLabels") or selector).items() <= labels.items()


def test_shell_completes_commands_and_words() -> None:
    for words, at, wanted in (
        ("pgtrickle re", 1, {"refresh", "relay", "rename", "restore", "repair"}),
        ("pgtrickle create t --refresh-mode D", 4, {"DIFFERENTIAL"}),
    ):
        asked = {"COMP_WORDS": words, "COMP_CWORD": str(at), "_PGTRICKLE_COMPLETE": "complete_bash"}
        answer = CliRunner().invoke(app, [], env=asked, prog_name="pgtrickle")
        assert set(answer.stdout.split()) == wanted


def test_bash_completes_with_the_script_that_the_command_prints() -> None:
    if (bash := shutil.which("bash")) is None:
        pytest.skip("there is no bash")
    program = str(Path(sys.executable).with_name("pgtrickle"))
    line = (
        f'eval "$({program} --show-completion)"; COMP_WORDS=({program} ver); COMP_CWORD=1;'
        ' _pgtrickle_completion "$0"; echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        [bash, "-c", line, program],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["verify", "version"]
