"""Stream tables of pgtrickle in Airflow.

The modules are imported where they are used: Airflow reads this one at each start.
"""

from typing import Any


def get_provider_info() -> dict[str, Any]:
    """Tell Airflow what there is."""
    package = "airflow_provider_pgtrickle"
    return {
        "package-name": "airflow-provider-pgtrickle",
        "name": "pgtrickle",
        "description": "Stream tables for PostgreSQL",
        "versions": ["0.1.0"],
        "integrations": [{"integration-name": "pgtrickle", "tags": ["software"]}],
        "operators": [
            {"integration-name": "pgtrickle", "python-modules": [f"{package}.operators"]}
        ],
        "sensors": [{"integration-name": "pgtrickle", "python-modules": [f"{package}.sensors"]}],
        "hooks": [{"integration-name": "pgtrickle", "python-modules": [f"{package}.hook"]}],
        "triggers": [{"integration-name": "pgtrickle", "python-modules": [f"{package}.triggers"]}],
    }
