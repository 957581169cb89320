"""Plain values that every layer shares: names, frontiers, stream tables, reports."""
