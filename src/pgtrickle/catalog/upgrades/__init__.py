"""What an upgrade of the catalog would do, and who stands in its way."""
