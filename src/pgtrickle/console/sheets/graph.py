"""The graph: each stream table above its sources, as a tree, with the state of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from pgtrickle.catalog.console.lines import Edge
from pgtrickle.console.sheet import Cell, Column, Line, Sheet, cell
from pgtrickle.console.sheets.overview import freshness_of, state_of
from pgtrickle.console.view import View

COLUMNS = (
    Column("stream tables above their sources", 40, grows=True),
    Column("kind", 14),
    Column("state", 11),
    Column("age/target", 11, right=True, counts=True),
    Column("consumers", 9, rank=1, right=True),
)
_NONE = (Cell(""), Cell(""))  # a source has neither state nor age
_MOST = 5000  # lines: a graph may have more paths than any screen


def draw(view: View) -> Sheet:
    """Draw the graph as a tree; what several read stands below each of them."""
    picture = view.picture
    tables = {one.name: one for one in picture.tables or ()}
    reads: dict[str, list[Edge]] = {name: [] for name in tables}
    consumers: dict[str, int] = {}
    for edge in picture.graph or ():
        reads.setdefault(edge.name, []).append(edge)
        consumers[edge.source] = consumers.get(edge.source, 0) + 1
    running = {one.stream_table for one in picture.running or ()}
    held = {one.stream_table for one in picture.holds or ()}
    drawn = {
        name: (state_of(one, running, held), freshness_of(one)) for name, one in tables.items()
    }
    lines = []
    for indent, name, kind in walk(reads, consumers):
        lines.append(_line(indent, name, kind, *drawn.get(name, _NONE), consumers.get(name)))
        if len(lines) == _MOST:
            break
    return Sheet(COLUMNS, tuple(lines), "no stream tables")


def walk(
    reads: Mapping[str, Sequence[Edge]], consumers: Mapping[str, int]
) -> Iterator[tuple[str, str, str]]:
    """Yield the branch, the name and the kind of each line; a circle ends above itself."""
    roots = [name for name in reads if name not in consumers]
    reached: set[str] = set()
    for name in roots:
        yield from _below(name, "stream table", "", "", (), reads, reached)
    for name in reads:  # members of a circle that nothing else reads
        if name not in reached:
            yield from _below(name, "stream table", "", "", (), reads, reached)


def _below(
    name: str,
    kind: str,
    branch: str,
    indent: str,
    path: tuple[str, ...],
    reads: Mapping[str, Sequence[Edge]],
    reached: set[str],
) -> Iterator[tuple[str, str, str]]:
    yield branch, name, kind
    reached.add(name)
    if name in path:
        return
    sources = reads.get(name, ())
    for place, edge in enumerate(sources):
        last = place == len(sources) - 1
        yield from _below(
            edge.source,
            edge.source_type.lower().replace("_", " "),
            indent + ("└─ " if last else "├─ "),
            indent + ("   " if last else "│  "),
            (*path, name),
            reads,
            reached,
        )


@lru_cache(maxsize=16_384)  # from one second to the next, hardly any is another
def _line(
    branch: str, name: str, kind: str, state: Cell, freshness: Cell, consumers: int | None
) -> Line:
    cells = (Cell(branch + cell(name).text), cell(kind), state, freshness, cell(consumers))
    return Line(cells, name)
