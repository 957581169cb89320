"""Chaos: everything that can die is killed while money moves between accounts."""
