"""The bank: accounts whose sum never changes, and twenty stream tables that show it.

Money is moved from one account to another and in no other way.  So at each moment every stream
table below has something that holds, whatever was moved: written here as a query that returns a row
for each thing that is wrong.  Most of the graph is diamonds, where a mixture of two versions shows.
"""

from __future__ import annotations

from dataclasses import dataclass

ACCOUNTS = 1000
OPENING = 1000
TOTAL = ACCOUNTS * OPENING

SOURCES = f"""
    CREATE TABLE accounts (id int PRIMARY KEY, branch int NOT NULL, balance bigint NOT NULL);
    CREATE TABLE transfers (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
                            payer int NOT NULL, payee int NOT NULL, amount bigint NOT NULL);
    INSERT INTO accounts SELECT n, n % 10, {OPENING} FROM generate_series(1, {ACCOUNTS}) AS n;
"""
TRANSFER = """
    WITH moved AS (
        UPDATE accounts AS a SET balance = balance + m.amount
          FROM (VALUES (%(payer)s::int, -%(amount)s::int8),
                       (%(payee)s, %(amount)s)) AS m (id, amount)
         WHERE a.id = m.id
    )
    INSERT INTO transfers (payer, payee, amount) VALUES (%(payer)s, %(payee)s, %(amount)s)
"""


@dataclass(frozen=True, slots=True)
class Shown:
    """A stream table of the bank, and what would show that it is wrong."""

    name: str
    query: str
    wrong: str  # rows where there should be none


_SUM = f"SELECT sum({{}}) FROM {{}} HAVING sum({{}}) IS DISTINCT FROM {TOTAL}"


def _adds_up(name: str, query: str, column: str) -> Shown:
    return Shown(name, query, _SUM.format(column, name, column))


def _nowhere(name: str, query: str, condition: str) -> Shown:
    return Shown(name, query, f"SELECT * FROM {name} WHERE {condition}")


def _half(name: str, rest: int) -> Shown:
    """Every second account: each once, and none of them missing."""
    return Shown(
        name,
        f"SELECT id, branch, balance FROM accounts WHERE id % 2 = {rest}",
        f"SELECT count(*), count(DISTINCT id) FROM {name}"
        f" HAVING (count(*), count(DISTINCT id)) <> ({ACCOUNTS // 2}, {ACCOUNTS // 2})",
    )


STREAM_TABLES = (
    _adds_up("balances", "SELECT id, branch, balance FROM accounts", "balance"),
    _adds_up(
        "branches",
        "SELECT branch, sum(balance) AS total, count(*) AS n FROM accounts GROUP BY branch",
        "total",
    ),
    _half("evens", 0),
    _half("odds", 1),
    _nowhere(
        "even_branches",
        "SELECT id % 5 AS part, sum(balance) AS total FROM evens GROUP BY id % 5",
        "part > 4",
    ),
    _nowhere(
        "odd_branches",
        "SELECT id % 5 AS part, sum(balance) AS total FROM odds GROUP BY id % 5",
        "part > 4",
    ),
    _adds_up("everyone", "SELECT * FROM evens UNION ALL SELECT * FROM odds", "balance"),
    _adds_up(
        "parts",
        "SELECT e.part, e.total + o.total AS total"
        " FROM even_branches AS e JOIN odd_branches AS o ON o.part = e.part",
        "total",
    ),
    _adds_up("of_parts", "SELECT sum(total) AS total FROM parts", "total"),
    _adds_up("of_everyone", "SELECT sum(balance) AS total FROM everyone", "total"),
    _nowhere(
        "compared_sums",
        "SELECT p.total - e.total AS gap FROM of_parts AS p, of_everyone AS e",
        "gap <> 0",
    ),
    _nowhere(
        "compared_branches",
        "SELECT b.branch, b.total - e.total AS gap FROM branches AS b"
        " JOIN (SELECT branch, sum(balance) AS total FROM everyone GROUP BY branch) AS e"
        " ON e.branch = b.branch",
        "gap <> 0",
    ),
    Shown(
        "ledger",
        "SELECT payer AS id, -amount AS moved FROM transfers"
        " UNION ALL SELECT payee, amount FROM transfers",
        "SELECT sum(moved) FROM ledger HAVING sum(moved) <> 0",
    ),
    Shown(
        "moves",
        "SELECT id, sum(moved) AS moved, count(*) AS n FROM ledger GROUP BY id",
        "SELECT sum(moved) FROM moves HAVING sum(moved) <> 0",
    ),
    _nowhere(
        "compared_balances",
        "SELECT b.id, b.balance - e.balance AS gap FROM balances AS b"
        " JOIN everyone AS e ON e.id = b.id",
        "gap <> 0",
    ),
    _nowhere(
        "census",
        "SELECT branch, count(*) AS n FROM everyone GROUP BY branch",
        f"n <> {ACCOUNTS // 10}",
    ),
    _nowhere(
        "extremes",
        "SELECT branch, max(balance) AS most, min(balance) AS least FROM everyone GROUP BY branch",
        "most < least",
    ),
    _adds_up("of_branches", "SELECT sum(total) AS total FROM branches", "total"),
    _nowhere(
        "compared_ways",
        "SELECT b.total AS a, p.total AS b FROM of_branches AS b, of_parts AS p",
        f"a <> {TOTAL} OR b <> {TOTAL}",
    ),
    _nowhere(
        "compared_moves",
        "SELECT m.id, m.moved - l.moved AS gap FROM moves AS m"
        " JOIN (SELECT id, sum(moved) AS moved FROM ledger GROUP BY id) AS l ON l.id = m.id",
        "gap <> 0",
    ),
)


def difference(shown: Shown) -> str:
    """Return the query that counts the rows in which a stream table is not what its query says."""
    return (
        f"SELECT (SELECT count(*) FROM (({shown.query}) EXCEPT ALL TABLE {shown.name}) AS missing)"
        f" + (SELECT count(*) FROM (TABLE {shown.name} EXCEPT ALL ({shown.query})) AS extra)"
    )
