"""Many writers, refreshes all the while, killed connections: nothing lost, nothing twice."""
