"""One delivery to the lake: rows, files, the commit."""
