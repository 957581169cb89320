"""The version of the package, and of the Spark beside it; stated here and nowhere else."""

from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Final

VERSION: Final = "0.1.0"


@cache
def spark_version() -> str | None:
    """Return the version of PySpark in this environment, without importing it."""
    try:
        return version("pyspark")
    except PackageNotFoundError:
        return None
