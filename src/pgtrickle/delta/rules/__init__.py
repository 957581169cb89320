"""One delta rule per file."""
