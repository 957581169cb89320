"""The scheduler's use cases: leadership, idle stream tables, holds, the bell, pruning."""
