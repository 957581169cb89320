"""A program that has a Spark of its own keeps it, before, during and after."""

from __future__ import annotations

from collections.abc import Callable

from tests.first_week.newcomer import ORDERS, REVENUE, Newcomer

_BESIDE = f"""
from pyspark.sql import SparkSession
import pgtrickle

spark = (SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
         .config("spark.driver.memory", "512m").getOrCreate())
with pgtrickle.connect(spark=spark) as trickle:
    trickle.create_stream_table("revenue", {REVENUE!r})
    assert SparkSession.getActiveSession() is spark
with pgtrickle.connect() as trickle:
    assert trickle.verify_stream_table("revenue").ok
print(spark.range(3).count())
"""


def test_session_of_the_user_is_used_and_goes_on(
    newcomer: Newcomer, program: Callable[[str], str]
) -> None:
    newcomer.sql(*ORDERS)

    assert program(_BESIDE).strip() == "3"

    assert [region for region, _ in newcomer.rows("TABLE revenue")] == ["north", "south"]
