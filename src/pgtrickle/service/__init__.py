"""The use cases, one file a verb."""
