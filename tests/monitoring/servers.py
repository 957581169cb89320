"""A Prometheus that scrapes what a test runs, and the questions that are asked of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from tests.fixtures.daemons import await_
from tests.relay.servers import free_port, need, running

INTERVAL = 1  # seconds between two scrapes, and between two looks at the alerts


def fetch(address: str, path: str) -> tuple[int, str]:
    """Return the status and the text of a page."""
    connection = HTTPConnection(urlsplit(address).netloc, timeout=30)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


@dataclass(frozen=True, slots=True)
class Prometheus:
    """One that runs."""

    address: str

    def get(self, path: str, **parameters: str) -> Any:
        """Return what its interface answers; it answers errors with another status than 200."""
        status, text = fetch(self.address, f"/api/v1/{path}?{urlencode(parameters)}")
        assert status == HTTPStatus.OK, text
        return json.loads(text)["data"]

    def query(self, expression: str) -> list[dict[str, Any]]:
        return list(self.get("query", query=expression)["result"])

    def targets(self) -> list[str]:
        return [one["health"] for one in self.get("targets")["activeTargets"]]

    def firing(self) -> dict[str, dict[str, str]]:
        """Return the alerts that fire, with their annotations."""
        return {
            one["labels"]["alertname"]: one["annotations"]
            for one in self.get("alerts")["alerts"]
            if one["state"] == "firing"
        }


@contextmanager
def prometheus(folder: Path, rules: Path, targets: Sequence[str]) -> Iterator[Prometheus]:
    """Run Prometheus on a free port, with its data in a folder."""
    program, port = need("prometheus", "prometheus"), free_port()
    settings = folder / "prometheus.yml"
    every = f"{INTERVAL}s"
    scrape = {
        "job_name": "pgtrickle",
        "static_configs": [{"targets": [one.removeprefix("http://") for one in targets]}],
    }
    settings.write_text(
        json.dumps(
            {
                "global": {"scrape_interval": every, "evaluation_interval": every},
                "rule_files": [str(rules)],
                "scrape_configs": [scrape],
            }
        )
    )
    command = [
        program,
        f"--config.file={settings}",
        f"--storage.tsdb.path={folder / 'series'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with running(command, port, folder / "prometheus.log"):
        address = f"http://127.0.0.1:{port}"
        await_(lambda: fetch(address, "/-/ready")[0] == HTTPStatus.OK)
        yield Prometheus(address)
