"""Tests of the catalog, on real PostgreSQL."""
