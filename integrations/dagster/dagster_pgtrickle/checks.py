"""Checks of assets: are the contents young enough, and are they what the query answers."""

from collections.abc import Sequence
from datetime import timedelta

from dagster import AssetCheckResult, AssetChecksDefinition, asset_check

from dagster_pgtrickle.resource import PgTrickle, chosen, key_of
from pgtrickle import QualifiedName


def stream_table_checks(
    database: PgTrickle,
    names: Sequence[str] | None = None,
    *,
    max_age: timedelta,
    verify: bool = False,
    key_prefix: Sequence[str] = (),
) -> list[AssetChecksDefinition]:
    """Make a check of the age of each stream table and, with ``verify``, of its contents.

    To verify, PostgreSQL answers the whole query: that may take long.
    """
    with database.client() as trickle:
        found = [one.name for one in chosen(trickle, names)]
    fresh = [_fresh(database, one, max_age, key_prefix) for one in found]
    return fresh + [_right(database, one, key_prefix) for one in found if verify]


def _fresh(database: PgTrickle, name: QualifiedName, max_age: timedelta, key_prefix: Sequence[str]):
    @asset_check(asset=key_of(name, key_prefix), name="fresh")
    def fresh() -> AssetCheckResult:
        with database.client() as trickle:
            age = trickle.insight.get_staleness(name.sql)
        if age is None:
            return AssetCheckResult(passed=False, description="it was never loaded")
        seconds = max_age.total_seconds()
        told = {"age_seconds": age, "max_age_seconds": seconds}
        return AssetCheckResult(passed=age <= seconds, metadata=told)

    return fresh


def _right(database: PgTrickle, name: QualifiedName, key_prefix: Sequence[str]):
    @asset_check(asset=key_of(name, key_prefix), name="verified")
    def verified() -> AssetCheckResult:
        with database.client() as trickle:
            found = trickle.verify_stream_table(name.sql)
        told = {"rows": found.rows, "missing": found.missing, "extra": found.extra}
        return AssetCheckResult(passed=found.ok, metadata=told)

    return verified
