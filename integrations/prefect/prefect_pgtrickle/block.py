"""The database whose stream tables flows refresh, as a block that Prefect keeps."""

from collections.abc import Iterator
from contextlib import contextmanager

from prefect.blocks.core import Block
from prefect.logging import get_logger
from pydantic import Field, SecretStr

import pgtrickle
from pgtrickle.client.commands import beside_daemon


class PgTrickleDatabase(Block):
    """A database with stream tables, by its connection string, which Prefect encrypts."""

    _block_type_name = "pgtrickle database"
    _block_type_slug = "pgtrickle-database"
    _description = "A PostgreSQL database with stream tables."

    dsn: SecretStr = Field(description="The connection string.")

    @contextmanager
    def client(self) -> Iterator[pgtrickle.Trickle]:
        """Lend a client; a daemon that serves the database does the work, else this process."""
        with pgtrickle.connect(self.dsn.get_secret_value()) as trickle:
            yield beside_daemon(trickle, get_logger("pgtrickle").info)
