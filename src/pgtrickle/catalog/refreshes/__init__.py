"""Our tables about refreshes: history, progress, leases, measurements."""
