"""Tables of a DuckLake as sources."""
