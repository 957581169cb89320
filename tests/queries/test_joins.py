"""Inner joins under changes of several tables in one window (scenarios.md: P1 to P7, P12)."""

from __future__ import annotations

from tests.labs.lab import Lab

SHOP = (
    "CREATE TABLE customers (id int PRIMARY KEY, name text)",
    "CREATE TABLE orders (id int PRIMARY KEY, customer_id int, qty int)",
    "INSERT INTO customers SELECT i, 'c' || i FROM generate_series(1, 6) AS i",
    "INSERT INTO orders SELECT i, 1 + i % 6, i FROM generate_series(1, 12) AS i",
)
PAIRS = "SELECT o.id, o.qty, c.name FROM orders AS o JOIN customers AS c ON c.id = o.customer_id"


def test_p01_key_changes_while_the_old_partner_is_deleted(lab: Lab):
    lab.run(*SHOP)
    lab.create("pairs", PAIRS)

    lab.window(
        "UPDATE orders SET customer_id = 5 WHERE customer_id = 3",
        "DELETE FROM customers WHERE id = 3",
    )

    assert lab.rows("SELECT id FROM pairs WHERE name = 'c3'") == []


def test_p01_key_changes_to_a_partner_that_does_not_exist(lab: Lab):
    lab.run(*SHOP)
    lab.create("pairs", PAIRS)

    lab.window(
        "UPDATE orders SET customer_id = 99 WHERE id = 2",
        "DELETE FROM customers WHERE id = 3",
    )

    assert lab.rows("SELECT id FROM pairs WHERE id = 2") == []


def test_p02_key_change_and_several_partners_deleted_leave_no_residue(lab: Lab):
    lab.run(*SHOP)
    lab.create("pairs", PAIRS)

    lab.window(
        "UPDATE orders SET customer_id = 1 WHERE id = 2",
        "DELETE FROM customers WHERE id IN (3, 4, 5)",
    )
    lab.window("INSERT INTO customers VALUES (3, 'again')")
    lab.window("UPDATE orders SET customer_id = 3 WHERE id IN (2, 3, 4)")


def test_p03_row_comes_and_goes_while_its_partner_is_deleted(lab: Lab):
    lab.run(*SHOP)
    lab.create("pairs", PAIRS)

    [report] = lab.window(
        "INSERT INTO orders VALUES (100, 99, 1)",
        "INSERT INTO customers VALUES (99, 'x')",
        "DELETE FROM orders WHERE id = 100",
        "DELETE FROM customers WHERE id = 99",
    )

    assert (report.rows_inserted, report.rows_deleted) == (0, 0)


def test_p03_row_comes_and_goes_while_an_old_partner_is_deleted(lab: Lab):
    lab.run(*SHOP, "DELETE FROM orders WHERE customer_id = 3")
    lab.create("pairs", PAIRS)

    [report] = lab.window(
        "INSERT INTO orders VALUES (100, 3, 1)",
        "DELETE FROM orders WHERE id = 100",
        "DELETE FROM customers WHERE id = 3",
    )

    assert (report.rows_inserted, report.rows_deleted) == (0, 0)


def test_p04_both_sides_of_a_pair_deleted(lab: Lab):
    lab.run(*SHOP)
    lab.create("pairs", PAIRS)

    [report] = lab.window("DELETE FROM orders WHERE id = 2", "DELETE FROM customers WHERE id = 3")

    assert (report.rows_inserted, report.rows_deleted) == (0, 2)


def test_p06_both_sides_of_a_pair_inserted(lab: Lab):
    lab.run(*SHOP)
    lab.create("pairs", PAIRS)

    [report] = lab.window(
        "INSERT INTO orders VALUES (100, 99, 7)", "INSERT INTO customers VALUES (99, 'new')"
    )

    assert (report.rows_inserted, report.rows_deleted) == (1, 0)


def test_p07_a_chain_of_windows_needs_no_reconciliation(lab: Lab):
    lab.run(*SHOP)
    lab.create("pairs", PAIRS)

    lab.window("UPDATE customers SET id = id + 100 WHERE id < 3")
    lab.window("UPDATE orders SET customer_id = customer_id + 100 WHERE customer_id < 3")
    lab.window("UPDATE customers SET id = id - 100 WHERE id > 100", "DELETE FROM orders WHERE id=5")
    lab.window("UPDATE orders SET customer_id = 1, qty = 0")


def test_p07_only_the_audit_sees_what_no_refresh_has_caused(lab: Lab):
    lab.run(*SHOP)
    lab.create("pairs", PAIRS)
    lab.run("ALTER TABLE pairs DISABLE TRIGGER pgtrickle_guard")
    lab.run("INSERT INTO pairs VALUES (1, 1, 'planted')", "DELETE FROM orders WHERE id = 12")

    report = lab.trickle.refresh_stream_table("pairs")
    audit = lab.trickle.verify_stream_table("pairs")

    assert report.action.value == "DIFFERENTIAL"
    assert (report.rows_inserted, report.rows_deleted) == (0, 1)
    assert (audit.ok, audit.missing, audit.extra) == (False, 0, 1)


DEEP = (
    "CREATE TABLE region (id int PRIMARY KEY, name text)",
    "CREATE TABLE nation (id int PRIMARY KEY, region_id int, name text)",
    "CREATE TABLE customer (id int PRIMARY KEY, nation_id int, name text)",
    "CREATE TABLE sale (id int PRIMARY KEY, customer_id int, day date)",
    "CREATE TABLE line (sale_id int, number int, amount numeric(10,2))",
    "INSERT INTO region SELECT i, 'r' || i FROM generate_series(1, 2) AS i",
    "INSERT INTO nation SELECT i, 1 + i % 2, 'n' || i FROM generate_series(1, 4) AS i",
    "INSERT INTO customer SELECT i, 1 + i % 4, 'c' || i FROM generate_series(1, 8) AS i",
    "INSERT INTO sale SELECT i, 1 + i % 8, '2026-01-01'::date + i FROM generate_series(1, 20) AS i",
    "INSERT INTO line SELECT 1 + i % 20, i, i * 1.25 FROM generate_series(1, 40) AS i",
)
DEEP_QUERY = """
    SELECT r.name AS region, n.name AS nation, c.name AS customer, s.day, l.amount
      FROM region AS r JOIN nation AS n ON n.region_id = r.id
      JOIN customer AS c ON c.nation_id = n.id JOIN sale AS s ON s.customer_id = c.id
      JOIN line AS l ON l.sale_id = s.id
"""
DEEP_SUMS = """
    SELECT r.name AS region, count(*) AS lines, sum(l.amount) AS total, max(s.day) AS latest
      FROM region AS r, nation AS n, customer AS c, sale AS s, line AS l
     WHERE n.region_id = r.id AND c.nation_id = n.id AND s.customer_id = c.id
       AND l.sale_id = s.id AND l.amount > 5
     GROUP BY r.name
"""


def test_p05_five_tables_with_deletes_in_one_subtree(lab: Lab):
    lab.run(*DEEP)
    lab.create("deep", DEEP_QUERY)
    lab.create("deep_sums", DEEP_SUMS)

    lab.window("DELETE FROM sale WHERE id < 5", "DELETE FROM line WHERE sale_id IN (3, 4, 7)")
    lab.window("DELETE FROM nation WHERE id = 2", "UPDATE customer SET nation_id = 1 WHERE id = 1")
    lab.window(
        "UPDATE region SET name = 'renamed' WHERE id = 1",
        "INSERT INTO nation VALUES (2, 1, 'back')",
        "UPDATE customer SET nation_id = 2 WHERE id > 5",
        "UPDATE sale SET customer_id = 6, day = day + 1 WHERE id = 9",
        "INSERT INTO line VALUES (9, 1, 99.99), (9, 1, 99.99)",
    )


def test_p05_every_table_changes_at_once(lab: Lab):
    lab.run(*DEEP)
    lab.create("deep", DEEP_QUERY)

    lab.window(
        "DELETE FROM region WHERE id = 1",
        "UPDATE nation SET region_id = 2",
        "UPDATE customer SET nation_id = 1 + id % 2",
        "UPDATE sale SET customer_id = 1 + id % 3",
        "UPDATE line SET amount = amount + 1 WHERE number % 2 = 0",
    )


STAFF = (
    "CREATE TABLE staff (id int PRIMARY KEY, boss int, name text)",
    "INSERT INTO staff SELECT i, i / 2, 's' || i FROM generate_series(1, 10) AS i",
)


def test_p05_self_join(lab: Lab):
    lab.run(*STAFF)
    lab.create(
        "chain",
        "SELECT a.name AS one, b.name AS two, c.name AS three"
        " FROM staff AS a JOIN staff AS b ON b.id = a.boss JOIN staff AS c ON c.id = b.boss",
    )

    lab.window("UPDATE staff SET boss = 2 WHERE id = 9", "DELETE FROM staff WHERE id = 4")
    lab.window("UPDATE staff SET id = id + 50 WHERE id = 2", "UPDATE staff SET boss = 52")
    lab.window("INSERT INTO staff VALUES (4, 4, 'own boss')")


def test_p05_cross_join_and_inequality(lab: Lab):
    lab.run("CREATE TABLE lo (n int)", "CREATE TABLE hi (n int)")
    lab.run("INSERT INTO lo VALUES (1), (5), (5)", "INSERT INTO hi VALUES (3), (5), (8)")
    lab.create("below", "SELECT lo.n AS low, hi.n AS high FROM lo JOIN hi ON lo.n < hi.n")
    lab.create("every", "SELECT lo.n AS low, hi.n AS high FROM lo CROSS JOIN hi")

    lab.window("INSERT INTO lo VALUES (4)", "DELETE FROM hi WHERE n = 8")
    lab.window("UPDATE lo SET n = n + 1", "UPDATE hi SET n = n - 1")


def test_p12_null_join_key(lab: Lab):
    lab.run(*SHOP)
    lab.create("pairs", PAIRS)

    lab.window("INSERT INTO orders VALUES (100, NULL, 1)")
    lab.window("UPDATE orders SET customer_id = 5 WHERE id = 100")
    lab.window("UPDATE orders SET customer_id = NULL WHERE id IN (100, 2)")
    lab.window("DELETE FROM orders WHERE customer_id IS NULL")


def test_p12_null_in_one_of_two_key_columns(lab: Lab):
    lab.run("CREATE TABLE l (a int, b text, v int)", "CREATE TABLE r (a int, b text, w int)")
    lab.run(
        "INSERT INTO l VALUES (1, 'x', 1), (1, NULL, 2), (NULL, 'x', 3), (NULL, NULL, 4)",
        "INSERT INTO r VALUES (1, 'x', 1), (1, NULL, 2), (NULL, 'x', 3), (NULL, NULL, 4)",
    )
    lab.create("keyed", "SELECT l.v, r.w, b FROM l JOIN r USING (a, b)")
    lab.create(
        "alike",
        "SELECT l.v, r.w FROM l JOIN r"
        " ON l.a IS NOT DISTINCT FROM r.a AND l.b IS NOT DISTINCT FROM r.b",
    )

    lab.window("UPDATE l SET b = 'x' WHERE v = 2", "UPDATE r SET a = 1 WHERE w = 3")
    lab.window("UPDATE l SET a = NULL", "INSERT INTO r VALUES (NULL, 'x', 5)")
    lab.window("DELETE FROM l WHERE a IS NULL", "DELETE FROM r WHERE b IS NULL")


def test_p12_tests_for_null_over_two_tables(lab: Lab):
    lab.run("CREATE TABLE l (k int, v int)", "CREATE TABLE r (k int, w int)")
    lab.run(
        "INSERT INTO l VALUES (1, 1), (1, NULL), (2, NULL)",
        "INSERT INTO r VALUES (1, 1), (1, NULL), (2, NULL)",
    )
    joined = "SELECT l.k, l.v, r.w FROM l JOIN r ON r.k = l.k WHERE"
    lab.create("known", f"{joined} coalesce(l.v, r.w) IS NOT NULL")
    lab.create("unknown", f"{joined} coalesce(l.v, r.w) IS NULL")
    lab.create("not_true", f"{joined} (l.v = r.w) IS NOT TRUE")
    lab.create("decided", f"{joined} (l.v = r.w) IS NOT UNKNOWN")

    lab.window("UPDATE l SET v = 2 WHERE k = 2", "INSERT INTO r VALUES (2, 2)")
    lab.window("UPDATE l SET v = NULL", "DELETE FROM r WHERE w = 1")
