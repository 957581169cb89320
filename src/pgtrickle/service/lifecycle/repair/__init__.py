"""A stream table whose sources, names or table have changed under it is made whole again."""
