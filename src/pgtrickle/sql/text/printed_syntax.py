"""Syntax that the parser library does not know, kept as PostgreSQL prints it.

``JSON_VALUE(doc, '$.a' RETURNING integer)`` is no list of arguments.  Here such a call is a text
with expressions in it: the expressions are parsed, because the columns in them get other names, and
the words between them are kept.  Only PostgreSQL evaluates it, so their meaning does not matter.
"""

from __future__ import annotations

from typing import Any, ClassVar

from sqlglot import Generator, TokenType, exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.parsers.postgres import PostgresParser

# After these words of a call comes an expression.
_INTRODUCES = frozenset({"PASSING", "DEFAULT", "SIMILAR", "ESCAPE"})
# The calls that are kept as they are printed.
PRINTED_CALLS = (
    "JSON", "JSON_ARRAY", "JSON_EXISTS", "JSON_OBJECT", "JSON_QUERY", "JSON_SCALAR",
    "JSON_SERIALIZE", "JSON_TABLE", "JSON_VALUE", "NORMALIZE", "XMLTABLE",
)  # fmt: skip
_NORMAL_FORMS = frozenset({"NFC", "NFD", "NFKC", "NFKD"})
PRINTED_AGGREGATES = ("JSON_ARRAYAGG", "JSON_OBJECTAGG")


SEARCHED = "searched"  # the argument of a CTE that holds its SEARCH and CYCLE


class Printed(exp.Expression, exp.Condition):
    """A text with expressions in it: ``texts`` has one part more than ``expressions``."""

    arg_types: ClassVar[dict[str, bool]] = {"texts": True, "expressions": False}


class PrintedAggregate(Printed, exp.AggFunc):
    """The same, of the form of a call of an aggregate; its ORDER BY is one of the expressions."""

    arg_types: ClassVar[dict[str, bool]] = {"texts": True, "expressions": False}


class PrintedCall(Printed, exp.Func):
    """The same, of the form of a function call."""

    arg_types: ClassVar[dict[str, bool]] = {"texts": True, "expressions": False}


def _write(generator: Generator, node: exp.Expr) -> str:
    first: str
    first, *others = node.args["texts"]
    operands = [generator.sql(one).strip() for one in node.expressions]
    return first + "".join(operand + text for operand, text in zip(operands, others, strict=True))


def _write_not(generator: Generator, node: exp.Expr) -> str:
    """Write ``a IS NOT TRUE`` as PostgreSQL does, to which ``NOT a IS TRUE`` is another query."""
    test = node.this
    if isinstance(test, exp.Is) and isinstance(test.expression, exp.Boolean):
        return f"{generator.sql(test.this)} IS NOT {generator.sql(test.expression)}"
    return f"NOT {generator.sql(test)}"


def _write_cte(generator: Generator, node: exp.CTE) -> str:
    text = generator.cte_sql(node)
    searched = node.args.get(SEARCHED)
    return text if searched is None else f"{text} {searched.name}"


Postgres.Generator.TRANSFORMS[exp.Not] = _write_not
Postgres.Generator.TRANSFORMS[exp.CTE] = _write_cte
for _table in (Postgres.Generator.TRANSFORMS, Generator.TRANSFORMS):
    _table[Printed] = _table[PrintedCall] = _table[PrintedAggregate] = _write
# PostgreSQL prints bit(1) with its length; without one, "bit" is of any length, and bit is not.
Postgres.Generator.TYPE_MAPPING[exp.DType.BIT] = '"bit"'


class _Text:
    """The text of a call while it is read."""

    def __init__(self, beginning: str) -> None:
        self.texts = [beginning]
        self.operands: list[exp.Expr] = []

    def word(self, text: str) -> None:
        last = self.texts[-1]
        tight = text in {",", ")", "]", "["} or last.endswith(("(", "["))
        self.texts[-1] = last + text if tight else f"{last} {text}"

    def operand(self, expression: exp.Expr) -> None:
        if not self.texts[-1].endswith("("):
            self.texts[-1] += " "
        self.operands.append(expression)
        self.texts.append("")


class PrintedSyntaxParser(PostgresParser):
    """Reads the calls of ``PRINTED_CALLS``, IS JSON, and the operator ``@``."""

    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        **PostgresParser.FUNCTION_PARSERS,
        **{
            name: lambda self, name=name: self._parse_printed(name)
            for name in (*PRINTED_CALLS, *PRINTED_AGGREGATES)
        },
        "SUBSTRING": lambda self: self._parse_similar() or self._parse_substring(),
    }

    def _parse_cte(self) -> exp.CTE | exp.FunctionSpecification | None:
        """Keep SEARCH and CYCLE behind a recursive query as they are printed."""
        cte = super()._parse_cte()
        start, first = self._index, self._curr
        for word, end in (("SEARCH", "SET"), ("CYCLE", "USING")):
            if not self._match_text_seq(word):
                continue
            while self._curr and not self._match_text_seq(end):
                self._advance()
            self._advance()  # the column that it adds
        if cte is not None and self._index > start:
            cte.set(SEARCHED, exp.Var(this=self._find_sql(first, self._prev)))
        return cte

    def _parse_printed(self, name: str) -> exp.Expr:
        """Read a call from behind its opening parenthesis as far as the closing one."""
        text = _Text(f"{name}(")
        self._read_printed(text, listed=True)
        text.texts[-1] += ")"
        kind = PrintedAggregate if name in PRINTED_AGGREGATES else PrintedCall
        return kind(texts=text.texts, expressions=text.operands)

    def _read_printed(self, text: _Text, *, listed: bool) -> None:
        """Read as far as the parenthesis that closes; a comma of a list precedes an expression."""
        expects, named = listed, not listed
        while self._curr and self._curr.token_type is not TokenType.R_PAREN:
            token = self._curr
            word = "" if token.token_type is TokenType.IDENTIFIER else token.text.upper()
            if expects and not self._begins_option(word):
                # Inside the columns of XMLTABLE the parentheses are the whole expression.
                xml = text.texts[0].startswith("XMLTABLE(")
                grouped = xml and not listed and self._opens_group()
                operand = self._parse_paren() if grouped else self._parse_assignment()
                if operand is None or self._curr is token:
                    self.raise_error("Expected an expression")
                    return
                text.operand(operand)
                expects = False
                continue
            expects = False
            if (order := self._parse_order()) is not None:
                text.operand(order)
                continue
            self._advance()
            text.word(self._find_sql(token, token))
            if named:  # a column or a name of something, whatever it looks like
                named = False
            elif token.token_type is TokenType.L_PAREN:
                self._copy_group(text)
            elif word == "COLUMNS":
                listed, named = False, True
                if self._match(TokenType.L_PAREN):
                    text.texts[-1] += " ("
                    self._read_group(text, listed=False)
                    named = False
            elif word == "XMLNAMESPACES" and self._match(TokenType.L_PAREN):
                text.texts[-1] += "("
                self._read_group(text, listed=True)
            elif word == ",":
                expects, named = listed, not listed
            elif word == "AS":
                named = True
            elif word in _INTRODUCES or word == ":" or (word == "PATH" and self._opens_group()):
                expects = True

    def _read_group(self, text: _Text, *, listed: bool) -> None:
        self._read_printed(text, listed=listed)
        self._match_r_paren()
        text.texts[-1] += ")"

    def _begins_option(self, word: str) -> bool:
        """Tell whether the options of a call follow, where there could be an expression."""
        if word in {"RETURNING", "XMLNAMESPACES"}:
            return True
        follows = self._next.text.upper() if self._next else ""
        if word in _NORMAL_FORMS and follows == ")":
            return True
        return word in {"ABSENT", "NULL"} and follows == "ON"

    def _opens_group(self) -> bool:
        return bool(self._curr) and self._curr.token_type is TokenType.L_PAREN

    def _copy_group(self, text: _Text) -> None:
        """Copy the text between two parentheses, such as the digits of a numeric."""
        depth = 1
        while self._curr and depth:
            token = self._curr
            depth += (token.token_type is TokenType.L_PAREN) - (
                token.token_type is TokenType.R_PAREN
            )
            self._advance()
            text.word(self._find_sql(token, token))

    def _parse_similar(self) -> exp.Expr | None:
        """Read ``SUBSTRING(a SIMILAR b ESCAPE c)``; None, and nothing read, for its other forms."""
        start = self._index
        text = _Text("SUBSTRING(")
        for word in ("SIMILAR", "ESCAPE", ""):
            operand = self._parse_bitwise()
            if operand is None or (word and not self._match_text_seq(word)):
                self._retreat(start)
                return None
            text.operand(operand)
            text.texts[-1] = f" {word}" if word else ")"
        return PrintedCall(texts=text.texts, expressions=text.operands)

    def _parse_unary(self) -> exp.Expr | None:
        if not self._match_text_seq("COLLATION", "FOR"):
            return super()._parse_unary()
        operand = self._parse_wrapped(self._parse_assignment)
        return Printed(texts=["COLLATION FOR (", ")"], expressions=[operand])

    def _parse_at_time_zone(self, this: exp.Expr | None) -> exp.Expr | None:
        found = super()._parse_at_time_zone(this)
        if found is None or not self._match_text_seq("AT", "LOCAL"):
            return found
        return Printed(texts=["", " AT LOCAL"], expressions=[found])

    def _parse_using_identifiers(self) -> list[exp.Expr]:
        """Skip the name of the merged columns: PostgreSQL prints those of a table in its place."""
        columns = super()._parse_using_identifiers()
        if self._match(TokenType.ALIAS):
            self._parse_id_var()
        return columns

    def _parse_is(self, this: exp.Expr | None) -> exp.Expr | None:
        start = self._index
        if this is not None and (words := self._read_normalized()):
            return Printed(texts=["", f" IS {words}"], expressions=[this])
        self._retreat(start)
        if this is None or not self._curr or self._curr.token_type is not TokenType.JSON:
            return super()._parse_is(this)
        kind = ["IS", "JSON"]
        self._advance()
        if self._match_texts(("VALUE", "SCALAR", "ARRAY", "OBJECT")):
            kind.append(self._prev.text.upper())
        if self._match_texts(("WITH", "WITHOUT")):
            kind.append(self._prev.text.upper())
        if kind[-1] in {"WITH", "WITHOUT"} and self._match_text_seq("UNIQUE"):
            kind.append("UNIQUE KEYS")
            self._match_text_seq("KEYS")
        return Printed(texts=["", f" {' '.join(kind)}"], expressions=[this])

    def _read_normalized(self) -> str:
        form = self._curr.text.upper() if self._curr else ""
        if form in _NORMAL_FORMS:
            self._advance()
        else:
            form = ""
        return f"{form} NORMALIZED".lstrip() if self._match_text_seq("NORMALIZED") else ""

    def _parse_parameter(self) -> exp.Expr:  # type: ignore[override]  # no parameters are printed
        operand = self._parse_unary()
        if operand is None:
            self.raise_error("Expected an expression")
        return Printed(texts=["@ ", ""], expressions=[operand])
