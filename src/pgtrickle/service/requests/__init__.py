"""Requests of SQL sessions: the server of the request queue, and its verbs."""
