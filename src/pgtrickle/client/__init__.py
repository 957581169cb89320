"""What users hold: the verbs on one database, by subject."""
