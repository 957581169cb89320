"""When, and in which order: the foreground scheduler behind ``pgtrickle run``."""
