"""Queries that read one another in a circle."""
