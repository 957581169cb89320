"""The commands on projects: stream tables as files."""
