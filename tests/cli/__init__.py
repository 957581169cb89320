"""The command line, as a user and a script meet it."""
