"""The graph of stream tables: order, circles, diamonds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pgtrickle.model.scheduling.graph import Graph


def test_what_all_paths_go_through_is_no_member():
    graph = Graph({"a": ["t"], "b": ["a"], "c": ["a"], "d": ["b", "c"]})

    assert graph.groups(["d"]) == (("b", "c", "d"),)


def test_paths_of_different_lengths():
    graph = Graph({"b": ["t"], "b2": ["b"], "c": ["t"], "d": ["b2", "c"]})

    assert graph.diamond("d") == {"b", "b2", "c", "d"}


def test_reading_a_table_and_its_sum_is_a_diamond():
    assert Graph({"b": ["t"], "d": ["t", "b"]}).groups(["d"]) == (("b", "d"),)


def test_reading_two_unrelated_stream_tables_is_none():
    assert Graph({"b": ["t"], "c": ["u"], "d": ["b", "c"]}).groups(["d"]) == ()


def test_diamonds_with_a_member_in_common_are_one_group():
    reads = {"b": ["t"], "c": ["t"], "e": ["t"], "d": ["b", "c"], "f": ["c", "e"]}

    [group] = Graph(reads).groups(reads)

    assert set(group) == {"b", "c", "d", "e", "f"}


def test_diamond_that_is_not_atomic_has_no_group():
    assert Graph({"b": ["t"], "c": ["t"], "d": ["b", "c"]}).groups([]) == ()


def test_group_that_is_wanted_joins_a_diamond_it_overlaps():
    graph = Graph({"b": ["t"], "c": ["t"], "d": ["b", "c"], "x": ["u"], "y": ["u"]})

    assert graph.groups([], [("x", "y")]) == (("x", "y"),)
    [group] = graph.groups(["d"], [("x", "c")])
    assert set(group) == {"b", "c", "d", "x"}


def test_what_lies_between_two_members_is_a_member():
    graph = Graph({"a": ["t"], "b": ["a"], "c": ["b"]})

    assert graph.groups([], [("a", "c")]) == (("a", "b", "c"),)


def test_chain_of_500_has_no_group():
    reads = {number: [number - 1] for number in range(1, 501)}

    assert Graph(reads).groups(reads) == ()
    assert Graph(reads).order == tuple(range(1, 501))


def test_cycle_is_shown_in_the_direction_of_reading():
    assert Graph({"a": ["c"], "b": ["a"], "c": ["b"]}).find_cycle() == ("a", "c", "b", "a")
    assert Graph({"a": ["a"]}).find_cycle() == ("a", "a")
    assert Graph({"a": ["t"]}).find_cycle() is None


_GRAPHS = st.lists(st.sets(st.integers(0, 9), max_size=4), max_size=7).map(
    lambda rows: Graph({n + 2: {m for m in row if m < n + 2} for n, row in enumerate(rows)})
)


@given(graph=_GRAPHS)
def test_member_is_what_a_second_path_leads_past(graph: Graph[int]):
    for node in graph.reads:
        paths = list(_paths(graph, node))
        expected = {
            member
            for path in paths
            for other in paths
            if path[-1] == other[-1] and path[1] != other[1]
            for member in path[1:-1]
            if member not in other
        }
        assert set(graph.diamond(node)) == (expected | {node} if expected else set())


def _paths(graph: Graph[int], node: int):
    """Yield every path from a reader up to something it reads."""
    for one in graph.reads.get(node, ()):
        yield (node, one)
        for rest in _paths(graph, one):
            yield (node, *rest)


@given(graph=_GRAPHS)
def test_groups_are_disjoint_and_in_order(graph: Graph[int]):
    groups = graph.groups(graph.reads)

    listed = [member for group in groups for member in group]
    assert len(listed) == len(set(listed))
    for group in groups:
        assert list(group) == [node for node in graph.order if node in group]


_LEAVES = Graph[int]({number: [] for number in range(12)})  # only what is wanted joins them


@given(wanted=st.lists(st.lists(st.integers(0, 11), min_size=2, max_size=3, unique=True)))
def test_groups_that_share_a_member_are_one_however_they_came_together(wanted: list[list[int]]):
    components = [set(one) for one in wanted]
    for one in wanted:
        touched = [component for component in components if not component.isdisjoint(one)]
        components = [component for component in components if component not in touched]
        components.append(set().union(*touched))

    groups = [set(group) for group in _LEAVES.groups((), wanted)]

    assert sorted(map(sorted, groups)) == sorted(map(sorted, components))


@given(graph=_GRAPHS)
def test_diamond_is_never_torn_apart(graph: Graph[int]):
    groups = graph.groups(graph.reads)

    for node in graph.reads:
        diamond = graph.diamond(node)
        assert not diamond or [set(group) >= diamond for group in groups].count(True) == 1


_WITH_CIRCLES = st.dictionaries(
    st.integers(0, 6), st.lists(st.integers(0, 8), max_size=3), max_size=7
).map(Graph[int])


@given(graph=_WITH_CIRCLES)
def test_circle_is_who_reaches_itself_and_stays_in_one_place(graph: Graph[int]):
    reach = {node: graph._reach(graph.reads[node], past=-1) for node in graph.reads}
    expected = {
        frozenset(other for other in graph.reads if other in reach[node] and node in reach[other])
        for node in graph.reads
        if node in reach[node]
    }

    assert set(map(frozenset, graph.circles)) == expected
    assert sorted(graph.order) == sorted(graph.reads)
    place = {node: number for number, node in enumerate(graph.order)}
    for circle in expected:
        places = sorted(place[node] for node in circle)
        assert places == list(range(places[0], places[0] + len(circle)))
    for node, below in reach.items():
        assert graph.ancestors[node] == below
        together = next((circle for circle in expected if node in circle), frozenset({node}))
        assert all(place[one] < place[node] for one in below - together if one in place)


@given(graph=_WITH_CIRCLES)
def test_circle_is_never_torn_apart(graph: Graph[int]):
    groups = graph.groups(graph.reads)

    for circle in graph.circles:
        if len(circle) > 1:
            assert [set(group) >= set(circle) for group in groups].count(True) == 1
