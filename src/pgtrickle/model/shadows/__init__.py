"""Shadow builds: their state, and how a shadow differs from its stream table."""
