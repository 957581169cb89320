"""The DuckLake format: catalog tables, columns, types, statistics."""
