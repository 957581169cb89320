"""The use cases, one file per verb."""
