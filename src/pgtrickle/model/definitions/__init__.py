"""Definitions as they are dumped and restored: their form, and how two of them differ."""
