"""The database whose stream tables Dagster shows."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from dagster import AssetKey, ConfigurableResource, EnvVar, get_dagster_logger

import pgtrickle
from pgtrickle.client.commands import beside_daemon


class PgTrickle(ConfigurableResource):  # type: ignore[type-arg]
    """A database with stream tables: ``PgTrickle(dsn=EnvVar("SHOP_DSN"))``."""

    dsn: str

    @contextmanager
    def client(self) -> Iterator[pgtrickle.Trickle]:
        """Lend a client; a daemon that serves the database does the work, else this process."""
        # Where definitions are made, Dagster has not read the environment yet.
        dsn = self.dsn.get_value() if isinstance(self.dsn, EnvVar) else self.dsn
        with pgtrickle.connect(dsn) as trickle:
            yield beside_daemon(trickle, get_dagster_logger("pgtrickle").info)


def chosen(trickle: pgtrickle.Trickle, names: Sequence[str] | None) -> list[pgtrickle.StreamTable]:
    """Return these stream tables, or all of them."""
    if names is None:
        return list(trickle.list_stream_tables())
    return [trickle.get_stream_table(name) for name in names]


def key_of(name: pgtrickle.QualifiedName, prefix: Sequence[str]) -> AssetKey:
    """Return the key of the asset: the prefix, the schema, the name."""
    return AssetKey([*prefix, name.schema, name.name])
