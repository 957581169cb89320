"""Schedules, groups, fuses and the graph as values."""
