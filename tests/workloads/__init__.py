"""Whole workloads kept up to date incrementally, and compared with PostgreSQL after each cycle."""
