"""Comparisons within one run, side by side with what a user would do instead."""
