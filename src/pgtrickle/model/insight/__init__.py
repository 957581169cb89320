"""Values of what is looked at: figures, sizes, findings."""
