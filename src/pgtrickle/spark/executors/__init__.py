"""Code for the executors: reads from and writes to PostgreSQL."""
