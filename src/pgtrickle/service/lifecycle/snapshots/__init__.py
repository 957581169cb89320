"""Snapshots of stream tables: take, restore, list, drop."""
