"""The pure part of a refresh: decide, plan, predict its cost."""
