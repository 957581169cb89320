"""One refresh: decide, plan, execute, commit."""
