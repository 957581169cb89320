"""The small and the large session are two profiles of one Spark."""

from __future__ import annotations

from pgtrickle.spark.sessions.pair import SparkSessions


def test_small_and_large_share_a_context_and_differ_in_profile(
    spark_sessions: SparkSessions,
) -> None:
    small, large = spark_sessions.small(), spark_sessions.large()

    assert small.conf.get("spark.sql.adaptive.enabled") == "false"
    assert large.conf.get("spark.sql.adaptive.enabled") == "true"
    assert small.sparkContext is large.sparkContext
    assert spark_sessions.small() is small
