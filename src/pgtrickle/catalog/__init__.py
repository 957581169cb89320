"""PostgreSQL adapter: the catalog tables and their migrations."""
