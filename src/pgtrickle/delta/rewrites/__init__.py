"""One plan rewrite per file."""
