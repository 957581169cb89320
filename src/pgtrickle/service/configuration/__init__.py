"""The settings of a process, as the database changes them while it runs."""
