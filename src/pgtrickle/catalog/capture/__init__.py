"""Our tables about captured sources."""
