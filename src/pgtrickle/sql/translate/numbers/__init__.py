"""Numbers: arithmetic of exact and floating-point values, and their rounding."""
