"""Dashboards and alerts, from one description: ``make docs`` writes the files."""
