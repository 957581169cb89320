"""Definitions as they are dumped and restored."""
