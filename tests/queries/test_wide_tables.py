"""Tables of more columns than fit in a 63-bit mask (scenarios.md: P47)."""

from __future__ import annotations

import pytest

from tests.labs.lab import Lab

_COLUMNS = [f"c{number:02}" for number in range(1, 71)]


@pytest.fixture
def wide(lab: Lab) -> Lab:
    listed = ", ".join(f"{name} int" for name in _COLUMNS)
    values = ", ".join(f"i % {number}" for number in range(2, 72))
    lab.run(
        f"CREATE TABLE wide (id int PRIMARY KEY, {listed})",
        f"INSERT INTO wide SELECT i, {values} FROM generate_series(1, 20) AS i",
        "CREATE TABLE names (k int, name text)",
        "INSERT INTO names VALUES (0, 'zero'), (1, 'one'), (2, 'two')",
    )
    return lab


def test_p47_update_of_columns_that_are_not_read_changes_nothing(wide: Lab) -> None:
    wide.create("sums", "SELECT c02, sum(c70) AS s FROM wide GROUP BY c02")
    wide.create("pairs", "SELECT w.id, n.name FROM wide AS w JOIN names AS n ON n.k = w.c02")

    reports = wide.window("UPDATE wide SET c01 = 99, c64 = NULL, c69 = -c69")

    assert [(one.rows_inserted, one.rows_deleted) for one in reports] == [(0, 0), (0, 0)]


def test_p47_update_of_columns_that_are_read_and_others(wide: Lab) -> None:
    wide.create("sums", "SELECT c02, sum(c70) AS s FROM wide GROUP BY c02")
    wide.create("late", "SELECT id, c63, c64, c65 FROM wide WHERE c70 > 3")

    wide.window("UPDATE wide SET c01 = 99, c70 = c70 + 5, c64 = NULL WHERE id % 2 = 0")
    wide.window("UPDATE wide SET c65 = -1, c33 = 0 WHERE id < 4", "DELETE FROM wide WHERE id = 20")


def test_p47_update_of_a_key_column_moves_the_row_to_another_group(wide: Lab) -> None:
    wide.create("sums", "SELECT c67, count(*) AS n, sum(c70) AS s FROM wide GROUP BY c67")
    wide.create("pairs", "SELECT w.id, n.name FROM wide AS w JOIN names AS n ON n.k = w.c67")

    wide.window("UPDATE wide SET c67 = 1 WHERE id > 10")
    wide.window("UPDATE wide SET c67 = NULL, c03 = 7 WHERE id = 1", "UPDATE wide SET id = -id")


def test_p47_every_column_of_a_wide_table(wide: Lab) -> None:
    wide.create("everything", "SELECT * FROM wide")

    [one] = wide.window("UPDATE wide SET c70 = -1 WHERE id = 5")
    [other] = wide.window("UPDATE wide SET c01 = NULL WHERE id = 5")

    assert (one.rows_inserted, one.rows_deleted) == (1, 1)
    assert (other.rows_inserted, other.rows_deleted) == (1, 1)
