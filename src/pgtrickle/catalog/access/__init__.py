"""Whose catalog it is, and who may look at it."""
