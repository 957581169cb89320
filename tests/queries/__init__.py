"""What SQL means: each construct maintained and compared with PostgreSQL's own answer."""
