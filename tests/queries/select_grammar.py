"""The grammar of SELECT in PostgreSQL's documentation, one query for each branch of it."""

from __future__ import annotations

from pathlib import Path

from tools.constructs import read_examples

# The tables and windows are those of tools/constructs.sql.
GRAMMAR = tuple(read_examples(Path(__file__).with_name("select_grammar.sql")).constructs)
