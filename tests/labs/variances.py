"""Variances over every exact type, and changes that empty and fill their groups."""

from __future__ import annotations

from tests.labs.digits import text_differences
from tests.labs.lab import Lab

FUNCTIONS = ("stddev", "stddev_samp", "stddev_pop", "variance", "var_samp", "var_pop")
_ALL = ", ".join(f"{one}({{0}}) AS {{1}}_{one}" for one in FUNCTIONS)
QUERY = (
    f"SELECT k, {_ALL.format('n', 'n')}, {_ALL.format('s', 's')}, {_ALL.format('p', 'p')},"
    f" {_ALL.format('w', 'w')}, {_ALL.format('b', 'b')},"
    " stddev(p) FILTER (WHERE n > 1) AS f, count(p) AS c, sum(n) AS t FROM v GROUP BY k"
)
TABLE = (
    "CREATE TABLE v (id int PRIMARY KEY, k int, n int, s smallint, p numeric(12, 3), w numeric(3),"
    " b bigint)"
)
ROWS = (
    "INSERT INTO v SELECT i, i % 4, i * 7919 % 101 - 50, i % 5, i * 1.337, i % 9, i * 10 ^ 15"
    " FROM generate_series(1, 40) AS i",
    "INSERT INTO v VALUES (41, 7, 3, 3, 1.5, 1, 1), (42, 8, NULL, NULL, NULL, NULL, NULL),"
    " (43, 9, -2147483648, 32767, 999999999.999, 999, -9223372036854775808),"
    " (44, 9, 2147483647, -32768, -999999999.999, -999, 9223372036854775807)",
)
WINDOWS = (
    ("INSERT INTO v SELECT id + 100, k, n, s, p, w, b FROM v WHERE id < 9",),
    ("UPDATE v SET n = n + 1000000, p = p / 3, s = NULL WHERE id % 5 = 0",),
    ("UPDATE v SET p = 'NaN', w = 'NaN' WHERE id IN (2, 41)",),
    ("DELETE FROM v WHERE k = 1", "UPDATE v SET k = 1 WHERE id = 2"),
    ("UPDATE v SET b = id WHERE id % 3 = 0", "UPDATE v SET b = b / 3 WHERE id % 3 = 1"),
    ("UPDATE v SET p = 0.001, w = 1 WHERE p = 'NaN'",),
    ("DELETE FROM v WHERE id > 2",),
    ("DELETE FROM v",),
    ("INSERT INTO v VALUES (1, 1, 5, 5, 5, 5, 5), (2, 1, 6, 5, 5.001, NULL, 5)",),
)


def follow_variances(lab: Lab) -> None:
    """Follow variances of every type through all windows, and compare them as text."""
    lab.run(TABLE, *ROWS)
    lab.create("made", QUERY)
    assert text_differences(lab, "made") == []
    for window in WINDOWS:
        lab.window(*window)
        assert text_differences(lab, "made") == []
