"""Tests of capture, on real PostgreSQL."""
