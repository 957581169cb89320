"""The figures of a rehearsed refresh, in every form in which they can be shown."""
