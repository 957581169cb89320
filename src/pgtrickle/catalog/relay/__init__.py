"""Queries over the tables of relays."""
