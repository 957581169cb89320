"""Stream tables of pgtrickle in Dagster: assets, checks, and a sensor that hears of refreshes."""

from dagster_pgtrickle.assets import stream_table_assets
from dagster_pgtrickle.checks import stream_table_checks
from dagster_pgtrickle.resource import PgTrickle
from dagster_pgtrickle.sensor import refresh_sensor

__all__ = ["PgTrickle", "refresh_sensor", "stream_table_assets", "stream_table_checks"]
