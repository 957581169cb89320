"""Create, alter, replace, verify and drop stream tables: one file per verb."""
