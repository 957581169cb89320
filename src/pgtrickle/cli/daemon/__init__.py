"""`pgtrickle run`: the daemon, its log, probes and metrics."""
