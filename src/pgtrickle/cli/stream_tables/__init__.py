"""Commands that change stream tables."""
