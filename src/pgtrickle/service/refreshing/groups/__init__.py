"""Several stream tables refreshed together: diamonds, refresh groups and circles."""
