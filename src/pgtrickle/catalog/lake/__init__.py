"""Our tables about lakes."""
