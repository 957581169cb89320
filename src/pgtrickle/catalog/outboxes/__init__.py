"""Queries over the tables of outboxes and of consumer groups."""
