"""Expressions over several tables, in the dialect of the engine that evaluates them.

PostgreSQL's meaning is the law.  For Spark this is a table of constructs with the same meaning
there, one family per file; anything else is refused by name, never approximated.  Spark runs
in ANSI mode and in UTC.  Where PostgreSQL fails but Spark would not (an overflow of floating
point, the square root of a negative number), the translation raises the error itself.
docs/expressions.md lists the contents of the table; tests/spark/test_expressions.py proves it.
"""

from pgtrickle.sql.translate.dialect import Dialect, quote_name
from pgtrickle.sql.translate.spark import term_of, translate

__all__ = ["Dialect", "quote_name", "term_of", "translate"]
