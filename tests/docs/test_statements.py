"""Every statement is one literal text, or goes through ``trusted``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src"
_RUN = {"execute", "executemany", "copy", "stream"}
_PUT_TOGETHER = {"encode", "format", "join", "replace"}
# ADBC takes no bytes; the name of a snapshot comes from PostgreSQL.
_EXCUSED = {"pgtrickle/transit/arrow_reader.py"}


def _put_together(node: ast.expr) -> bool:
    """Tell whether an expression puts a text together out of others.

    What psycopg's ``sql.SQL`` puts together is quoted by psycopg.
    """
    match node:
        case ast.Call(ast.Attribute(ast.Call(ast.Attribute(ast.Name("sql"), "SQL")), how)) if (
            how in {"format", "join"}
        ):
            return False
        case ast.JoinedStr(values):
            return any(isinstance(value, ast.FormattedValue) for value in values)
        case ast.BinOp(left, ast.Add() | ast.Mod(), right):
            return any(_put_together(one) or not _is_text(one) for one in (left, right))
        case ast.Call(ast.Attribute(_, name)):
            return name in _PUT_TOGETHER
        case _:
            return False


def _returns_text(function: ast.FunctionDef) -> bool:
    """Tell whether a function returns a text that it puts together."""
    return any(
        isinstance(one, ast.Return) and one.value is not None and _put_together(one.value)
        for one in ast.walk(function)
    )


def _name_of(function: ast.expr) -> str:
    return function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant | ast.Name | ast.JoinedStr)


class _Inlined(ast.NodeTransformer):
    """Puts ``sql.SQL("...")`` where a module names it."""

    def __init__(self, tree: ast.Module) -> None:
        self.named = {
            target.id: one.value
            for one in tree.body
            if isinstance(one, ast.Assign) and ast.unparse(one.value).startswith("sql.SQL(")
            for target in one.targets
            if isinstance(target, ast.Name)
        }

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.named.get(node.id, node) if isinstance(node.ctx, ast.Load) else node


def _untrusted(tree: ast.Module) -> Iterator[int]:
    """Yield the line of each statement that is put together and that nobody vouches for."""
    tree = _Inlined(tree).visit(tree)
    functions = [one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef)]
    makers = {one.name for one in functions if _returns_text(one)}
    for scope in [tree, *functions]:
        texts = {
            target.id
            for one in ast.walk(scope)
            if isinstance(one, ast.Assign) and _put_together(one.value) and scope is not tree
            for target in one.targets
            if isinstance(target, ast.Name)
        }
        for one in ast.walk(scope):
            if (
                isinstance(one, ast.Call)
                and isinstance(one.func, ast.Attribute)
                and one.func.attr in _RUN
                and one.args
            ):
                statement = one.args[0]
                named = isinstance(statement, ast.Name) and statement.id in texts
                made = isinstance(statement, ast.Call) and _name_of(statement.func) in makers
                if named or made or _put_together(statement):
                    yield one.lineno


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ('connection.execute("SELECT 1")', False),
        ('connection.execute(trusted(f"ANALYZE {name.sql}"))', False),
        ('connection.execute(f"ANALYZE {name.sql}")', True),
        ('connection.execute(f"ANALYZE {name.sql}".encode())', True),
        ("connection.execute(_LIST.format(table=table))", True),
        ('_LIST = sql.SQL("TABLE {}")\nconnection.execute(_LIST.format(name))', False),
        ('def f():\n    text = f"ANALYZE {name}"\n    connection.execute(text)', True),
        ('def f():\n    return f"TABLE {name}".encode()\nconnection.execute(f())', True),
    ],
)
def test_statement_that_is_put_together_needs_someone_to_vouch(text: str, *, refused: bool) -> None:
    assert bool(list(_untrusted(ast.parse(text)))) is refused


def test_every_statement_is_literal_or_trusted() -> None:
    found = {
        f"{path.relative_to(SOURCE)}:{line}"
        for path in SOURCE.rglob("*.py")
        if str(path.relative_to(SOURCE)) not in _EXCUSED
        for line in _untrusted(ast.parse(path.read_text()))
    }
    assert not found
