"""Spark adapter: sessions, reads, running a stage."""
