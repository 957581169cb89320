"""Changes of columns that readers feel: drop, retype, reorder; with what depends on them."""
