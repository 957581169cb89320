"""Refreshes, one by one and together."""
