"""A project: stream tables as files, what they come to in a database, and their tests."""
