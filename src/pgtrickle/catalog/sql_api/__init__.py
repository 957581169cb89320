"""SQL files that define what runs in the database, applied again when their text changes."""
