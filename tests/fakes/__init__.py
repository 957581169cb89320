"""Second implementations of the ports, for tests."""
