"""PostgreSQL and Spark together."""
