"""Another query for a stream table: loaded beside it, then put in its place."""
