"""The verbs on change streams."""
