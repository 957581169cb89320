"""One plan rewrite a file."""
