"""WITH RECURSIVE."""

from __future__ import annotations

from pgtrickle.sql.refusal import Refusal
from pgtrickle.sql.rows import Compiler, Context, Cte, Rows


def lower_recursive(compiler: Compiler, name: str, cte: Cte, context: Context) -> Rows:
    """Lower a CTE that names itself."""
    raise Refusal("WITH RECURSIVE", "recursive")
