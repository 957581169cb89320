"""The client that users hold: the verbs on one database, by subject."""
