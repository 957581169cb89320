"""Queries over the tables of inbound pipelines."""
