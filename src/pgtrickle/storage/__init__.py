"""PostgreSQL adapter: staging, state tables, apply."""
