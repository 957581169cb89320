"""The copy of a stream table in a DuckLake."""
