"""What an upgrade of the catalog would do, as values."""
