"""Deciding and planning a refresh."""
