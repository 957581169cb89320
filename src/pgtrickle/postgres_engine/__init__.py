"""The second engine: PostgreSQL computes stages where their inputs are, and nothing leaves it."""
