"""Subqueries as operators."""
