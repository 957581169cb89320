"""Projects: read files, plan what they come to in a database, apply that, test the rows."""
