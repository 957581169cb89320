"""One delta rule a file."""
