"""Commands on change streams."""
