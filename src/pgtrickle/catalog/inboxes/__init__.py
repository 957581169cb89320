"""Queries over the tables of inboxes."""
