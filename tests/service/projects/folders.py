"""What tests of projects share: a folder that is a project, over two tables."""

from __future__ import annotations

from pathlib import Path

from pgtrickle.model.projects.plan import ProjectPlan
from tests.labs.lab import Lab

PROJECT = """
project: shop
variables: {least: 10, every: 1m}
defaults: {schedule: "{{ var('every') }}"}
targets:
  dev: {schema_prefix: dev_, variables: {least: 0}}
  prod: {default: true}
"""
FILES = {
    "big": """---
description: Orders that matter
columns: {amount: In euros}
tags: [sales]
owner: Ann
tests:
  - unique: id
  - not_null: [id, region]
---
SELECT id, region, amount FROM orders WHERE amount >= {{ var('least') }}
""",
    "by_region": """---
refresh_mode: DIFFERENTIAL
---
SELECT region, sum(amount) AS total FROM {{ ref('big') }} GROUP BY region;
""",
    "top": "SELECT max(total) AS total FROM {{ ref('by_region') }}",
}


def prepare(lab: Lab) -> None:
    lab.run(
        "CREATE TABLE orders (id int PRIMARY KEY, region text, amount int)",
        "INSERT INTO orders VALUES (1, 'north', 10), (2, 'south', 20), (3, 'north', 5)",
    )


def write(folder: Path, project: str = PROJECT, **files: str | None) -> Path:
    """Write a project; None takes a file away."""
    (folder / "stream_tables").mkdir(exist_ok=True)
    (folder / "pgtrickle.yml").write_text(project)
    for name, text in {**FILES, **files}.items():
        path = folder / "stream_tables" / f"{name}.sql"
        if text is None:
            path.unlink(missing_ok=True)
        else:
            path.write_text(text)
    return folder


def actions(plan: ProjectPlan) -> dict[str, str]:
    return {str(one.name): one.action for one in plan.steps}
