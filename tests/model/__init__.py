"""Values of the domain."""
