"""Expressions over several tables, in the dialect that has to evaluate them.

PostgreSQL's meaning is the law.  For Spark this is a table of what is known to mean the same
there, one family a file; whatever is not in it is refused by name, never approximated.  Spark runs
in ANSI mode and in UTC.  Where Spark would answer what PostgreSQL refuses (an overflow of floating
point, the square root of a negative number), the translation raises the error itself.
docs/expressions.md lists what is in the table; tests/spark/test_expressions.py proves it.
"""

from pgtrickle.sql.translate.dialect import Dialect, quote_name
from pgtrickle.sql.translate.spark import translate

__all__ = ["Dialect", "quote_name", "translate"]
