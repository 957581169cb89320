"""Stream tables that read one another, by consent: see docs/adr/0023."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pgtrickle.errors import (
    CircularDependencyError,
    DependentsExistError,
    FixpointNotReachedError,
    NotMonotoneError,
    ServerBusyError,
    StatusForbidsError,
    TrickleError,
)
from pgtrickle.model.stream_table import InitiatedBy
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.service.refreshing.groups.together import refresh_together
from pgtrickle.service.refreshing.run import refresh_alone
from pgtrickle.storage.fixpoint import Fixpoint, Unknown
from tests.labs.circles import EDGES, FEW, check, close, with_settings
from tests.labs.lab import Lab
from tests.labs.wal_lab import modes


@pytest.fixture
def graph(lab: Lab) -> Lab:
    lab.run(EDGES, FEW)
    return lab


@pytest.mark.parametrize("length", [1, 2, 3])
def test_walks_are_those_of_postgresql(graph: Lab, length: int):
    close(graph, length)
    check(graph, length)

    for statement, action in (
        ("INSERT INTO edge VALUES (7, 8), (8, 5)", "DIFFERENTIAL"),
        ("INSERT INTO edge VALUES (7, 8)", "DIFFERENTIAL"),
        ("DELETE FROM edge WHERE src = 4", "FULL"),
        ("UPDATE edge SET dst = 3 WHERE src = 1", "FULL"),
        ("TRUNCATE edge", "FULL"),
        (FEW, "DIFFERENTIAL"),
        ("SELECT 1", "NO_DATA"),
    ):
        graph.run(statement)
        report = graph.trickle.refresh_stream_table("walk_0")
        assert report.action.value == action, report.reason
        check(graph, length)
        assert graph.trickle.verify_stream_table("walk_0").ok


def test_rows_that_only_support_one_another_are_gone(graph: Lab):
    close(graph, 2)
    graph.run("INSERT INTO edge VALUES (10, 11), (11, 10), (12, 10)")
    graph.trickle.refresh_stream_table("walk_0")

    # 12 is left with a way into a ring that leads nowhere; then the ring is broken.
    graph.run("DELETE FROM edge WHERE src = 11")
    graph.trickle.refresh_stream_table("walk_1")

    check(graph, 2)
    assert graph.rows("SELECT dst FROM walk_0 WHERE src = 12") == [(11,)]


def test_members_have_one_history_and_one_moment(graph: Lab):
    close(graph, 3)
    graph.run("INSERT INTO edge VALUES (7, 1)")

    report = graph.trickle.refresh_stream_table("walk_2")

    assert "rounds" in report.reason
    last = graph.rows(
        "SELECT DISTINCT ON (pgt_id) pgt_name, action, h.status, rows_inserted > 0"
        "  FROM pgtrickle.pgt_refresh_history AS h JOIN pgtrickle.pgt_stream_tables USING (pgt_id)"
        " ORDER BY pgt_id, refresh_id DESC"
    )
    assert last == [(f"walk_{number}", "DIFFERENTIAL", "COMPLETED", True) for number in range(3)]
    [(members, iterations)] = graph.rows(
        "SELECT members, last_iterations FROM pgtrickle.pgt_scc_status()"
    )
    assert sorted(members) == ["public.walk_0", "public.walk_1", "public.walk_2"]
    assert iterations > 1


def test_without_consent_the_path_is_shown(graph: Lab):
    with pytest.raises(CircularDependencyError) as raised:
        close(graph, 3, allow_circular=False)

    path = str(raised.value).partition(": ")[2].split(" -> ")
    twice_around = ["public.walk_0", "public.walk_2", "public.walk_1"] * 2
    first = twice_around.index(path[0])
    assert path == twice_around[first : first + 4]
    assert "allow_circular" in raised.value.hint
    assert graph.rows("SELECT scc_id FROM pgtrickle.pgt_stream_tables WHERE scc_id > 0") == []


@pytest.mark.parametrize(
    ("query", "construct"),
    [
        ("SELECT src, dst FROM edge UNION ALL SELECT src, dst FROM b", "UNION ALL"),
        ("SELECT src, dst FROM b", "a SELECT without DISTINCT"),
        ("SELECT src, dst FROM edge EXCEPT SELECT src, dst FROM b", "EXCEPT"),
        ("SELECT src, max(dst) AS dst FROM b GROUP BY src", "GROUP BY"),
        ("SELECT DISTINCT max(src) AS src, max(dst) AS dst FROM b", "an aggregate"),
        ("SELECT src, dst FROM edge UNION (SELECT src, dst FROM b LIMIT 3)", "LIMIT"),
        ("SELECT DISTINCT src, rank() OVER (ORDER BY dst)::int AS dst FROM b", "a window"),
        ("SELECT DISTINCT e.src, b.dst FROM edge AS e LEFT JOIN b USING (src)", "LEFT JOIN"),
        ("SELECT DISTINCT e.src, b.dst FROM b RIGHT JOIN edge AS e USING (src)", "RIGHT JOIN"),
        ("SELECT DISTINCT src, b.dst FROM b FULL JOIN edge AS e USING (src)", "FULL JOIN"),
        ("SELECT DISTINCT src, dst FROM edge WHERE NOT EXISTS (TABLE b)", "NOT EXISTS"),
        ("SELECT DISTINCT src, dst FROM edge WHERE src NOT IN (SELECT dst FROM b)", "NOT IN"),
        ("SELECT DISTINCT src, dst FROM edge WHERE src > ALL (SELECT dst FROM b)", "ALL over"),
        ("SELECT DISTINCT src, (SELECT dst FROM b) AS dst FROM edge", "a subquery inside"),
        ("SELECT DISTINCT ON (src) src, dst FROM b", "DISTINCT ON"),
        (
            "SELECT DISTINCT src, dst FROM b WHERE now() > '2000-01-01'",
            "a function of the current time",
        ),
        (
            "WITH RECURSIVE r AS (SELECT src, dst FROM b UNION SELECT src, dst FROM r)"
            " SELECT DISTINCT src, dst FROM r",
            "WITH RECURSIVE",
        ),
        (
            "SELECT DISTINCT src, dst FROM (SELECT src, dst FROM b OFFSET 1) AS later",
            "OFFSET",
        ),
    ],
)
def test_what_is_not_monotone_is_refused_by_name(graph: Lab, query: str, construct: str):
    graph.trickle.create_stream_table("a", "SELECT DISTINCT src, dst FROM edge")
    graph.trickle.create_stream_table("b", "SELECT DISTINCT src, dst FROM a")

    with (
        with_settings(graph, allow_circular=True),
        pytest.raises(NotMonotoneError, match=construct) as raised,
    ):
        graph.trickle.alter_stream_table("a", query=query)

    assert '"public.a"' in str(raised.value)
    assert graph.rows("TABLE a") == graph.rows("SELECT DISTINCT src, dst FROM edge")
    assert graph.rows("SELECT FROM pgtrickle.pgt_successors") == []


def test_obstacle_of_another_member_is_named(graph: Lab):
    graph.trickle.create_stream_table("a", "SELECT DISTINCT src, dst FROM edge")
    graph.run("CREATE VIEW few AS SELECT src, min(dst) AS dst FROM a GROUP BY src")
    graph.trickle.create_stream_table("b", "SELECT DISTINCT src, dst FROM few")
    query = "SELECT src, dst FROM edge UNION SELECT src, dst FROM b"

    with with_settings(graph, allow_circular=True), pytest.raises(NotMonotoneError) as raised:
        graph.trickle.alter_stream_table("a", query=query)

    assert '"public.b"' in str(raised.value)
    assert "GROUP BY" in str(raised.value)


def test_function_that_may_read_a_table_and_own_aggregate_are_named(graph: Lab):
    graph.run(
        "CREATE FUNCTION edges() RETURNS int STABLE LANGUAGE sql"
        " AS 'SELECT count(*)::int FROM edge'",
        "CREATE AGGREGATE least_of(int) (sfunc = int4smaller, stype = int)",
    )
    graph.trickle.create_stream_table("a", "SELECT DISTINCT src, dst FROM edge")
    for query, name in (
        ("SELECT DISTINCT src, edges() AS dst FROM a", "edges"),
        ("SELECT DISTINCT least_of(src) AS src, 1 AS dst FROM a", "least_of"),
    ):
        with (
            with_settings(graph, allow_circular=True),
            pytest.raises(NotMonotoneError, match=name),
        ):
            graph.trickle.alter_stream_table("a", query=query)


def test_strict_mode_is_refused_now_and_later(graph: Lab):
    graph.trickle.create_stream_table("a", "SELECT DISTINCT src, dst FROM edge")
    query = "SELECT src, dst FROM edge UNION SELECT src, dst FROM a"
    with with_settings(graph, allow_circular=True):
        with pytest.raises(NotMonotoneError, match="DIFFERENTIAL"):
            graph.trickle.alter_stream_table("a", query=query, refresh_mode="DIFFERENTIAL")
        graph.trickle.alter_stream_table("a", query=query, refresh_mode="FULL")

    with pytest.raises(NotMonotoneError, match="DIFFERENTIAL"):
        graph.trickle.alter_stream_table("a", refresh_mode="DIFFERENTIAL")
    graph.run("INSERT INTO edge VALUES (8, 9)")
    assert graph.trickle.refresh_stream_table("a").reason.startswith("refresh_mode is FULL")


def test_endless_growth_is_stopped_and_nothing_changes(graph: Lab):
    graph.trickle.create_stream_table("a", "SELECT DISTINCT src AS n FROM edge WHERE dst = 2")
    query = "SELECT src AS n FROM edge WHERE dst = 2 UNION SELECT n + 1 FROM a WHERE n < {}"
    with with_settings(graph, allow_circular=True, max_fixpoint_iterations=20):
        with pytest.raises(FixpointNotReachedError, match=r"public\.a"):
            graph.trickle.alter_stream_table("a", query=query.format(1000))
        assert graph.rows("TABLE a") == [(1,), (4,)]
        assert graph.rows("SELECT FROM pgtrickle.pgt_successors") == []

        graph.trickle.alter_stream_table("a", query=query.format(15))
        graph.run("INSERT INTO edge VALUES (-30, 2)")
        with pytest.raises(FixpointNotReachedError) as raised:
            graph.trickle.refresh_stream_table("a")

    assert "max_fixpoint_iterations" in raised.value.hint
    assert len(graph.rows("TABLE a")) == 15
    assert graph.trickle.refresh_history("a")[0].status.value == "FAILED"
    assert graph.trickle.refresh_stream_table("a").rows_inserted == 31


def test_reader_of_a_circle_follows_its_changes(graph: Lab):
    close(graph, 2)
    graph.create("fans", "SELECT src, count(*) AS n FROM walk_0 GROUP BY src")
    graph.create("pairs", "SELECT w.src, e.dst FROM walk_1 AS w JOIN edge AS e ON e.src = w.dst")

    for statement in ("INSERT INTO edge VALUES (7, 5)", "DELETE FROM edge WHERE dst = 2"):
        graph.run(statement)
        graph.refresh("pairs")
        graph.trickle.refresh_stream_table("walk_0")
        graph.refresh("fans")
        check(graph, 2)
    tree = [line for (line,) in graph.rows("SELECT tree_line FROM pgtrickle.dependency_tree()")]
    assert any("walk_1" in line for line in tree)


def test_circle_through_a_view_and_names_that_differ(graph: Lab):
    graph.run('CREATE TABLE "Other Edges" ("From" bigint, "To" numeric)')
    graph.trickle.create_stream_table("a", 'SELECT DISTINCT src::numeric AS "X y", dst FROM edge')
    graph.run('CREATE VIEW seen (p, q) AS SELECT "X y", dst FROM a')
    graph.trickle.create_stream_table(
        "b", 'WITH two AS (SELECT p, q FROM seen) SELECT DISTINCT s.p AS "X y", t.q::int AS dst'
        " FROM two AS s JOIN two AS t ON t.p = s.q",
    )  # fmt: skip
    with with_settings(graph, allow_circular=True):
        graph.trickle.alter_stream_table(
            "a",
            query='SELECT src AS "X y", dst FROM edge UNION SELECT "From", "To"::int FROM'
            ' "Other Edges" UNION SELECT * FROM b',
        )
    expected = (
        "WITH RECURSIVE e AS (SELECT src::numeric, dst FROM edge UNION"
        ' SELECT "From", "To"::int FROM "Other Edges"), r AS (SELECT * FROM e UNION'
        " SELECT r.src, e.dst FROM r JOIN e ON e.src = r.dst) SELECT * FROM r"
    )
    for statement in (
        "SELECT 1",
        'INSERT INTO "Other Edges" VALUES (7, 9), (9, 1)',
        "INSERT INTO edge VALUES (3, 9)",
        'UPDATE "Other Edges" SET "To" = 6 WHERE "To" = 9',
    ):
        graph.run(statement)
        graph.trickle.refresh_stream_table("b")
        stored = graph.rows("TABLE a")
        assert len(stored) == len(set(stored))
        assert set(stored) == set(graph.rows(expected))
        assert graph.trickle.verify_stream_table("a").ok


def test_circle_is_left_by_another_query(graph: Lab):
    close(graph, 2)
    graph.run("INSERT INTO edge VALUES (7, 5)")

    graph.trickle.alter_stream_table("walk_1", query="SELECT DISTINCT src, dst FROM edge")

    assert graph.rows("TABLE pgtrickle.pgt_stream_tables") != []
    assert graph.rows("SELECT * FROM pgtrickle.pgt_scc_status()") == []
    for statement in ("INSERT INTO edge VALUES (7, 6)", "DELETE FROM edge WHERE src = 7"):
        for name in ("walk_1", "walk_0"):
            graph.trickle.refresh_stream_table(name)
            assert graph.trickle.verify_stream_table(name).ok
        assert graph.rows("TABLE walk_0") == graph.rows(
            "SELECT DISTINCT w.src, e.dst FROM edge AS w JOIN edge AS e ON e.src = w.dst"
        )
        graph.run(statement)


def test_circle_grows_by_another_member(graph: Lab):
    close(graph, 1)
    graph.trickle.create_stream_table("far", "SELECT DISTINCT src, dst FROM walk_0 WHERE dst > 3")
    query = (
        "SELECT src, dst FROM edge UNION SELECT w.src, e.dst FROM walk_0 AS w"
        " JOIN edge AS e ON e.src = w.dst UNION SELECT dst, src FROM far"
    )
    with with_settings(graph, allow_circular=True):
        graph.trickle.alter_stream_table("walk_0", query=query)
    graph.run("INSERT INTO edge VALUES (7, 5)", "DELETE FROM edge WHERE src = 5")

    graph.trickle.refresh_stream_table("far")

    assert graph.value("SELECT member_count FROM pgtrickle.pgt_scc_status()") == 2
    assert graph.trickle.verify_stream_table("walk_0").ok
    assert graph.trickle.verify_stream_table("far").ok


def test_member_is_dropped_with_the_others_or_not_at_all(graph: Lab):
    close(graph, 3)

    with pytest.raises(DependentsExistError) as raised:
        graph.trickle.drop_stream_table("walk_1")
    assert "walk_2" in raised.value.detail
    assert len(graph.trickle.drop_stream_table("walk_1", cascade=True)) == 3

    assert graph.leftovers() == []


def test_suspended_member_keeps_the_others_waiting(graph: Lab):
    close(graph, 2)
    graph.run("INSERT INTO edge VALUES (7, 5)")
    graph.trickle.alter_stream_table("walk_0", status="SUSPENDED")

    with pytest.raises(StatusForbidsError, match="walk_0"):
        graph.trickle.refresh_stream_table("walk_1")
    graph.trickle.alter_stream_table("walk_0", status="ACTIVE")
    graph.trickle.refresh_stream_table("walk_1")

    check(graph, 2)


def test_changed_source_starts_the_circle_anew(graph: Lab):
    close(graph, 2)
    graph.run("ALTER TABLE edge ALTER COLUMN dst SET NOT NULL", "ALTER TABLE edge ADD note text")
    graph.run("DELETE FROM edge WHERE src = 2", "VACUUM FULL edge")

    graph.trickle.refresh_stream_table("walk_1")
    check(graph, 2)
    graph.run("INSERT INTO edge VALUES (2, 6)")

    assert graph.trickle.refresh_stream_table("walk_1").action.value == "DIFFERENTIAL"
    check(graph, 2)


def test_reader_never_sees_half_a_fixpoint_nor_does_a_writer_slip_in(graph: Lab):
    close(graph, 2)
    graph.run("INSERT INTO edge VALUES (7, 5)")
    seen: list[object] = []
    create = Fixpoint._create

    def interrupted(fixpoint: Fixpoint, unknown: Unknown) -> None:
        create(fixpoint, unknown)
        graph.run("INSERT INTO edge VALUES (7, 1)")
        seen.append(graph.rows("SELECT * FROM walk_0 WHERE src = 7"))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Fixpoint, "_create", interrupted)
        graph.trickle.refresh_stream_table("walk_0")
    assert seen == [[], []]
    assert graph.rows("SELECT dst FROM walk_1 WHERE src = 7 AND dst = 2") == [(2,)]

    graph.trickle.refresh_stream_table("walk_0")
    check(graph, 2)


@pytest.mark.parametrize("step", ["_repeat", "_insert"])
def test_crash_in_between_changes_nothing(graph: Lab, step: str):
    close(graph, 2)
    before = graph.rows("TABLE walk_0"), graph.rows("TABLE walk_1")
    graph.run("DELETE FROM edge WHERE src = 3", "INSERT INTO edge VALUES (7, 5)")

    original = getattr(Fixpoint, step)

    def dying(fixpoint: Fixpoint, *given: object) -> object:
        """End the session on the server, as a crash of the process would."""
        graph.run(f"SELECT pg_terminate_backend({fixpoint.connection.info.backend_pid})")
        return original(fixpoint, *given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Fixpoint, step, dying)
        with pytest.raises(TrickleError):
            graph.trickle.refresh_stream_table("walk_0")

    assert (graph.rows("TABLE walk_0"), graph.rows("TABLE walk_1")) == before
    graph.trickle.refresh_stream_table("walk_0")
    check(graph, 2)


_EDGES = st.tuples(st.integers(1, 6), st.integers(1, 6))
_CHANGES = st.one_of(
    st.lists(_EDGES, min_size=1, max_size=3).map(
        lambda edges: "INSERT INTO edge VALUES " + ", ".join(map(str, edges))
    ),
    _EDGES.map(lambda edge: f"DELETE FROM edge WHERE (src, dst) = {edge}"),
    st.tuples(_EDGES, _EDGES).map(
        lambda both: f"UPDATE edge SET (src, dst) = {both[0]} WHERE (src, dst) = {both[1]}"
    ),
)


@pytest.mark.timeout(300)
@settings(max_examples=8, suppress_health_check=list(HealthCheck), deadline=None)
@given(
    length=st.sampled_from([2, 3]),
    windows=st.lists(st.lists(_CHANGES, min_size=1, max_size=3), min_size=2, max_size=5),
)
def test_circle_is_its_recursion_after_any_history(lab: Lab, length, windows):
    lab.reset()
    lab.run(EDGES, "INSERT INTO edge VALUES (1, 2), (2, 3), (3, 1)")
    close(lab, length)
    for statements in windows:
        lab.run(*statements)
        lab.trickle.refresh_stream_table("walk_0")
        check(lab, length)


def test_verify_finds_rows_that_only_support_one_another(graph: Lab):
    close(graph, 1)
    buffer = graph.value("SELECT 'changes_' || 'walk_0'::regclass::oid")
    # 2, 3 and 4 are a ring: whoever reaches one of them reaches all, and nothing contradicts that.
    graph.run(
        "BEGIN; SET LOCAL session_replication_role = replica;"
        " INSERT INTO walk_0 VALUES (99, 2), (99, 3), (99, 4); COMMIT",
        # Captured all the same, a refresh would take them back.
        f"DELETE FROM pgtrickle_changes.{buffer}",
    )

    report = graph.trickle.verify_stream_table("walk_0")

    assert (report.ok, report.extra, report.missing) == (False, 3, 0)
    graph.trickle.refresh_stream_table("walk_0", full=True)
    check(graph, 1)


def test_member_is_never_refreshed_without_the_others(graph: Lab):
    close(graph, 2)
    graph.run("INSERT INTO edge VALUES (7, 5)")
    runtime = graph.trickle._runtime
    name = QualifiedName("public", "walk_0")

    with pytest.raises(ServerBusyError, match="walk_0"):
        refresh_alone(runtime, name)
    with pytest.raises(ServerBusyError, match="walk_0"):
        refresh_together(runtime, [name], initiated_by=InitiatedBy.MANUAL)

    graph.trickle.refresh_stream_table("walk_0")
    check(graph, 2)


def test_source_that_the_log_captures(wal: Lab):
    wal.run("CREATE TABLE edge (src int, dst int, PRIMARY KEY (src, dst))", FEW)
    with with_settings(wal, cdc_mode="wal"):
        close(wal, 2)
        assert modes(wal)["edge"] == "WAL"
        for statement, action in (
            ("INSERT INTO edge VALUES (7, 5)", "FULL"),
            ("DELETE FROM edge WHERE src = 4", "FULL"),
            ("SELECT 1", "NO_DATA"),
        ):
            wal.run(statement)
            assert wal.trickle.refresh_stream_table("walk_0").action.value == action
            check(wal, 2)
        assert wal.trickle.verify_stream_table("walk_1").ok
