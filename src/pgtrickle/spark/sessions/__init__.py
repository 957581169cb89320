"""Spark's JVM and sessions: started, shared, ended."""
