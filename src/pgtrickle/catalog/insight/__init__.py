"""Queries that look: profiles of refreshes, sizes, findings."""
