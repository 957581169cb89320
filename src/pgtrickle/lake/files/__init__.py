"""The locations of a lake's files, and access to them."""
