"""What the scheduler asks of the database."""
