"""Plans as values."""
