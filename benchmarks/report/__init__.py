"""Tables and plots of benchmark results: the same files from the same results, every time."""
