"""The first week of a new user, replayed: an own database, an ordinary role, README and docs.

Each test is one stumble, as it is seen from outside: by the command line, in psql, from Python.
How each part works is tested where it lies.
"""
