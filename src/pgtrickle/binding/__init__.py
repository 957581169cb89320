"""Facts about a query from PostgreSQL's own catalog: names, types, keys, functions, rights."""
