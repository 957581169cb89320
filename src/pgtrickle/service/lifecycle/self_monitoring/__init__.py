"""Self-monitoring: stream tables over the history of refreshes."""
