"""What users hold, as far as no database is needed."""
