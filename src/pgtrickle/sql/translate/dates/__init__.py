"""Dates, timestamps and intervals."""
