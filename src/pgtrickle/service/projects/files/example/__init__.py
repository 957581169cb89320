"""The project that ``pgtrickle init-project`` writes, and the tables that it reads."""
