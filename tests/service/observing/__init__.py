"""Who is told of refreshes outside the database."""
