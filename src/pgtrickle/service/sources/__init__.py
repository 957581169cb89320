"""Sources outside PostgreSQL: one package per kind."""
