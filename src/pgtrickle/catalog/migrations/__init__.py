"""Numbered SQL files, applied in order by ``pgtrickle.catalog.migrate``."""
