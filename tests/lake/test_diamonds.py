"""Stream tables that are refreshed together are delivered together."""

from __future__ import annotations

from tests.lake.shore import Shore


def test_members_of_a_diamond_are_delivered_with_their_transaction(shore: Shore):
    shore.create("low", "SELECT id, k, v FROM t WHERE v < 60")
    shore.create("high", "SELECT id, k, v FROM t WHERE v >= 60")
    shore.create(
        "joint",
        "SELECT low.k, sum(low.v + high.v) AS v FROM low JOIN high USING (k) GROUP BY low.k",
    )

    shore.window("joint", "UPDATE t SET v = v + 20 WHERE id % 3 = 0", "DELETE FROM t WHERE id = 7")

    for name in ("low", "high"):
        shore.check(name)
    [(moments,)] = shore.tell("SELECT count(DISTINCT frontier) FROM pgtrickle.pgt_stream_tables")
    assert moments == 1


def test_clients_commit_between_the_refreshes_of_a_diamond(shore: Shore):
    shore.create("low", "SELECT id, k, v FROM t WHERE v < 60")
    shore.create("high", "SELECT id, k, v FROM t WHERE v >= 60")
    shore.create(
        "joint",
        "SELECT low.k, sum(low.v + high.v) AS v FROM low JOIN high USING (k) GROUP BY low.k",
    )
    shore.client.execute("CREATE TABLE notes (n int)")
    for number in range(3):
        shore.client.execute(f"INSERT INTO notes VALUES ({number})")

        shore.window("joint", f"UPDATE t SET v = v + 20 WHERE id % 3 = {number}")

    assert shore.ask("SELECT count(*) FROM notes") == [(3,)]
    assert {one.status.value for one in shore.trickle.lake.ducklake_sink_status()} == {"DELIVERED"}
