"""From a plan to the plan of its change: rules, rewrites, state."""
