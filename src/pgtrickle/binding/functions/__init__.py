"""The functions that a query calls: what PostgreSQL's catalog says of them, and what they read."""
