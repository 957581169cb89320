"""The files of a project: read, checked, put in order; and written."""
