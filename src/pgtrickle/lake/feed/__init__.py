"""The changes of a lake table between two snapshots, by row id, in PostgreSQL's types."""
