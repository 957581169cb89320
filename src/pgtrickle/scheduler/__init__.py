"""The scheduler behind ``pgtrickle run``: when, and in which order, stream tables are refreshed."""
