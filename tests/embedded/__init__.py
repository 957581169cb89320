"""The embedded server, with real processes and a real server."""
