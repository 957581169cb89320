"""Queries that nobody means well by: each must end with an answer or a coded error, and soon."""
