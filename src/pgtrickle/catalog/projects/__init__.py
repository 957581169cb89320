"""Queries over ``pgt_project_tables``: which stream tables the files of projects define."""
