"""How changes of a source are captured, and the positions in the log."""
