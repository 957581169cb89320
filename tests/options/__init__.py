"""The options of stream tables, on every surface."""
