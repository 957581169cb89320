"""Capture of sources, by triggers and from the log."""
