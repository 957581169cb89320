"""One asset per stream table, with what it reads above it."""

from collections.abc import Sequence

from dagster import AssetKey, AssetsDefinition, MaterializeResult, asset

from dagster_pgtrickle.resource import PgTrickle, chosen, key_of
from pgtrickle import QualifiedName, StreamTable, Trickle


def stream_table_assets(
    database: PgTrickle,
    names: Sequence[str] | None = None,
    *,
    key_prefix: Sequence[str] = (),
    group_name: str = "pgtrickle",
) -> list[AssetsDefinition]:
    """Make an asset of each of these stream tables, or of all that the database has now.

    To materialize it is to refresh it and to wait for that.  Its tables and stream tables are the
    assets above it; those that are tables of the application are shown as external.
    """
    with database.client() as trickle:
        found = [
            (one, [key_of(above, key_prefix) for above in _sources(trickle, one)])
            for one in chosen(trickle, names)
        ]
    return [_asset(database, one, above, key_prefix, group_name) for one, above in found]


def _sources(trickle: Trickle, one: StreamTable) -> list[QualifiedName]:
    listed = trickle.insight.list_sources(one.name.sql)
    return [QualifiedName.parse(source.source_table) for source in listed]


def _asset(
    database: PgTrickle,
    one: StreamTable,
    above: Sequence[AssetKey],
    key_prefix: Sequence[str],
    group_name: str,
) -> AssetsDefinition:
    @asset(
        key=key_of(one.name, key_prefix),
        deps=above,
        group_name=group_name,
        kinds={"postgres"},
        description=f"```sql\n{one.original_query.strip()}\n```",
        metadata={"schedule": one.schedule, "refresh_mode": one.refresh_mode.value},
    )
    def refreshed() -> MaterializeResult:
        with database.client() as trickle:
            report = trickle.refresh_stream_table(one.name.sql)
        return MaterializeResult(
            metadata={
                "refresh_id": report.refresh_id,
                "action": report.action.value,
                "reason": report.reason,
                "rows_inserted": report.rows_inserted,
                "rows_deleted": report.rows_deleted,
                "duration_ms": report.duration_ms,
            }
        )

    return refreshed
