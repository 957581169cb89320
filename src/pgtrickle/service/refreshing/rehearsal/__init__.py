"""Rehearse a refresh: run its stages, measure them, and roll everything back."""
