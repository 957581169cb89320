"""PostgreSQL adapter: change buffers, triggers and windows."""
