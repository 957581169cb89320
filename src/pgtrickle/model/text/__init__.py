"""Names, connection strings and other text as values."""
