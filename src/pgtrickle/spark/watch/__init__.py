"""Watch that Spark makes progress."""
