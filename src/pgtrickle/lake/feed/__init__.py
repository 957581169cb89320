"""What changed in a lake table between two snapshots, by row id, and its rows as PostgreSQL's."""
