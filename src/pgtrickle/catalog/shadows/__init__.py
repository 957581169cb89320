"""Queries over shadow builds."""
