"""Snapshots of stream tables: their entries, and how two of them differ."""
