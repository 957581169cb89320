"""Measure a query for PostgreSQL's planner from its rule trees alone.

The planner inlines views and simple subqueries: the tables of all of them
meet in one join, and an expression is copied to each use of its column.  Ten views that each join
the one before with itself are a thousand tables, and thirty are more than memory holds.  So
everything is counted first, each view once.

A tree is text: ``{NODE :field value ...}``, with a backslash before braces and blanks that belong
to a name or literal (PostgreSQL's ``nodeToString``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from pgtrickle.errors import QueryRejectedError

# A join lists the columns of all that is below it: of a chain, the square of its length.
_LISTED = re.compile(r":joinaliasvars \((?:\{VAR [^{}]*\}\s*)+\)")
# One of four characters first, so that the text between them is skipped quickly.
_EVENT = re.compile(
    r"""
    [\\{}:](?:
    (?<=\\).
    | (?<=\{)(?P<node>[A-Z0-9_]*)
    | (?<=\})(?P<end>)
    | (?<=:)(?P<field>rtekind|relid|ctename|ctelevelsup|ctematerialized|cterefcount|cterecursive
                     |varno|varattno|varlevelsup)\ (?P<value>(?:\\.|[^\\\s{}()])+)
    | (?<=:)(?P<barrier>(?:hasAggs|hasWindowFuncs|hasTargetSRFs)\ true
                       |(?:groupClause|groupingSets|distinctClause)\ \(
                       |(?:limitCount|limitOffset|setOperations)\ \{)
    |)
    """,
    re.VERBOSE | re.DOTALL,
)
_RELATION, _CTE = "0", "6"
_OTHERS = frozenset("3457")  # functions, XMLTABLE, VALUES, tuples of a trigger
_NEVER_MATERIALIZED = "2"
CEILING = 10**9  # sums stop growing there


@dataclass(frozen=True, slots=True)
class PlannedSize:
    """The size of the planner's input."""

    tables: int = 0  # in total, each once per read
    joined: int = 0  # in the outermost join
    widest: int = 0  # the most in one join, anywhere
    nodes: int = 0  # of expressions, each once per use
    columns: tuple[int, ...] = ()  # the nodes of each column, for queries that use it


def measure_rules(trees: Mapping[int, str], view: int) -> PlannedSize:
    """Measure the query of ``view``; ``trees`` has its rule, and those of the views below."""
    return _Rules(trees).of(view)


@dataclass(slots=True)
class _Query:
    """One level of a query while its tree is read."""

    tables: int = 0
    joined: int = 0
    widest: int = 0
    nodes: int = 0
    branches: int = 0  # the most in one branch of a UNION
    barrier: bool = False  # the part below is planned separately
    union: bool = False
    ctes: dict[str, tuple[PlannedSize, bool]] = field(default_factory=dict)
    entries: list[tuple[int, ...]] = field(default_factory=list)  # of the range table: columns
    columns: list[int] = field(default_factory=list)

    def add(self, size: PlannedSize, *, joined: int) -> None:
        self.tables = min(self.tables + size.tables, CEILING)
        self.joined = min(self.joined + joined, CEILING)
        self.branches = max(self.branches, size.joined)
        self.widest = max(self.widest, size.widest)
        self.nodes = min(self.nodes + size.nodes, CEILING)

    def size(self) -> PlannedSize:
        joined = self.branches if self.union else self.joined
        widest = max(self.widest, joined)
        columns = tuple(1 for _ in self.columns) if self.barrier else tuple(self.columns)
        seen = 1 if self.barrier else joined
        return PlannedSize(self.tables, seen, widest, self.nodes, columns)


@dataclass(slots=True)
class _Node:
    """A node that is open: its fields as far as they matter, and the nodes below it."""

    name: str
    fields: dict[str, str] = field(default_factory=dict)
    below: int = 0
    inner: PlannedSize | None = None  # of the query in it


class _Rules:
    def __init__(self, trees: Mapping[int, str]) -> None:
        self._trees = trees
        self._known: dict[int, PlannedSize] = {}
        self._open: set[int] = set()

    def of(self, view: int) -> PlannedSize:
        if view not in self._known:
            if view in self._open:
                raise QueryRejectedError(
                    "the query reads a view that reads itself",
                    hint="Replace the view by one that reads tables.",
                )
            self._open.add(view)
            self._known[view] = _Reader(self, view).read(self._trees[view])
        return self._known[view]

    def relation(self, relid: int) -> PlannedSize:
        return self.of(relid) if relid in self._trees else PlannedSize(1, 1, 1, 1)


class _Reader:
    """Reads one tree from left to right; a definition comes before its uses."""

    def __init__(self, rules: _Rules, view: int) -> None:
        self._rules = rules
        self._view = view
        self._nodes: list[_Node] = [_Node("")]
        self._queries: list[_Query] = []

    def read(self, tree: str) -> PlannedSize:
        for event in _EVENT.finditer(_LISTED.sub("", tree)):
            if (name := event["node"]) is not None:
                self._begin(name)
            elif event["end"] is not None:
                self._end()
            elif event["field"]:
                self._nodes[-1].fields.setdefault(event["field"], event["value"])
            if event["barrier"] and self._queries:
                self._bar(event["barrier"])
        return self._nodes[0].inner or PlannedSize()

    def _bar(self, barrier: str) -> None:
        query = self._queries[-1]
        query.barrier = True
        if barrier.startswith("setOperations"):
            query.union = True
        if barrier.endswith("{"):
            self._begin("")  # the brace was read with it

    def _begin(self, name: str) -> None:
        self._nodes.append(_Node(name))
        if name == "QUERY":
            self._queries.append(_Query())

    def _end(self) -> None:
        node, above = self._nodes.pop(), self._nodes[-1]
        match node.name:
            case "QUERY":
                above.inner = self._queries.pop().size()
                self._leave(above)
            case "RANGETBLENTRY":
                self._enter(node)
            case "COMMONTABLEEXPR":
                self._define(node)
            case "VAR":
                above.below = min(above.below + self._uses(node.fields), CEILING)
            case _:
                below = min(node.below + 1, CEILING)
                if above.name == "QUERY":
                    query = self._queries[-1]
                    query.nodes = min(query.nodes + below, CEILING)
                    if node.name == "TARGETENTRY":
                        query.columns.append(below)
                else:
                    above.below = min(above.below + below, CEILING)

    def _leave(self, above: _Node) -> None:
        """Count a subquery in an expression in place; the others have names."""
        size = above.inner
        if size and self._queries and above.name not in {"RANGETBLENTRY", "COMMONTABLEEXPR"}:
            self._queries[-1].add(size, joined=size.joined)
            above.below = min(above.below + size.nodes + size.tables, CEILING)

    def _enter(self, node: _Node) -> None:
        """Count an entry of the range table."""
        query, kind = self._queries[-1], node.fields.get("rtekind", "")
        size = PlannedSize()
        if node.inner is not None:
            size = node.inner
        elif kind == _RELATION and int(node.fields["relid"]) != self._view:
            size = self._rules.relation(int(node.fields["relid"]))
        elif kind == _CTE:
            size = self._cte(node.fields)
        elif kind in _OTHERS:
            size = PlannedSize(1, 1, 1, node.below)
        query.add(size, joined=size.joined)
        query.entries.append(size.columns)

    def _cte(self, fields: Mapping[str, str]) -> PlannedSize:
        level = int(fields.get("ctelevelsup", "0"))
        if level < len(self._queries):
            size, inlined = self._queries[-1 - level].ctes.get(
                fields.get("ctename", ""), (PlannedSize(), False)
            )
            if inlined:
                return size
        return PlannedSize(1, 1, 1, 1)

    def _define(self, node: _Node) -> None:
        size = node.inner or PlannedSize()
        kind, used = node.fields.get("ctematerialized"), node.fields.get("cterefcount")
        recursive = node.fields.get("cterecursive") == "true"
        inlined = not recursive and (kind == _NEVER_MATERIALIZED or (kind == "0" and used == "1"))
        query = self._queries[-1]
        query.ctes[node.fields.get("ctename", "")] = size, inlined
        if not inlined:
            query.add(size, joined=0)  # planned once, separately

    def _uses(self, fields: Mapping[str, str]) -> int:
        """Return the nodes of the referenced column."""
        level, entry = int(fields.get("varlevelsup", "0")), int(fields.get("varno", "0"))
        column = int(fields.get("varattno", "0"))
        if level >= len(self._queries):
            return 1
        entries = self._queries[-1 - level].entries
        if not 0 < entry <= len(entries):
            return 1
        columns = entries[entry - 1]
        if column == 0:
            return max(1, sum(columns))
        return columns[column - 1] if 0 < column <= len(columns) else 1
