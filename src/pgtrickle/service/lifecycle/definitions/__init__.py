"""Dump every definition of a database into files, and restore them from there (docs/adr/0050)."""
