"""What a user looks at."""
