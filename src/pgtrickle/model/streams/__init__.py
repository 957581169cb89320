"""Change streams as values."""
