"""NOT IN, ANY and ALL with SQL's three truth values (scenarios.md: P29, P30)."""

from __future__ import annotations

import pytest

from tests.labs.lab import Lab


@pytest.fixture
def sets(lab: Lab) -> Lab:
    lab.run(
        "CREATE TABLE o (id int, k int, t text)",
        "CREATE TABLE i (g int, k int, t text)",
        "INSERT INTO o VALUES (1, 1, 'a'), (2, 2, 'b'), (2, 2, 'b'), (3, NULL, 'c'), (4, 4, NULL)",
        "INSERT INTO i VALUES (1, 1, 'a'), (1, 3, 'c')",
    )
    return lab


def test_p29_a_null_inside_empties_the_result_and_its_going_brings_it_back(sets: Lab) -> None:
    sets.create("s", "SELECT id FROM o WHERE k NOT IN (SELECT k FROM i)")

    assert sets.rows("TABLE s") == [(2,), (2,), (4,)]
    sets.window("INSERT INTO i VALUES (9, NULL, 'n')")
    assert sets.rows("TABLE s") == []
    sets.window("INSERT INTO i VALUES (9, NULL, 'n')", "INSERT INTO o VALUES (7, 7, 'q')")
    sets.window("DELETE FROM i WHERE ctid = (SELECT min(ctid) FROM i WHERE k IS NULL)")
    assert sets.rows("TABLE s") == []
    sets.window("UPDATE i SET k = 2 WHERE k IS NULL")
    assert sets.rows("TABLE s") == [(4,), (7,)]


def test_p29_nothing_inside_lets_every_row_in_even_null(sets: Lab) -> None:
    sets.create("s", "SELECT id, k FROM o WHERE k NOT IN (SELECT k FROM i)")

    sets.window("DELETE FROM i")
    assert len(sets.rows("TABLE s")) == 5
    sets.window("INSERT INTO i VALUES (1, 100, '')")
    sets.window("DELETE FROM i", "UPDATE o SET k = NULL WHERE id = 2")


def test_p29_both_sides_change(sets: Lab) -> None:
    sets.create("s", "SELECT id FROM o WHERE k NOT IN (SELECT k FROM i WHERE t IS NOT NULL)")

    sets.window("UPDATE o SET k = 3 WHERE id = 1", "UPDATE i SET k = 2 WHERE k = 3")
    sets.window("UPDATE i SET t = NULL WHERE k = 1", "INSERT INTO o VALUES (8, 1, 'z')")
    sets.window("DELETE FROM o WHERE id = 2", "DELETE FROM i WHERE k = 2")


def test_p29_several_columns(sets: Lab) -> None:
    sets.create("s", "SELECT id FROM o WHERE (k, t) NOT IN (SELECT k, t FROM i)")

    sets.window("INSERT INTO i VALUES (1, 2, NULL)")
    sets.window("INSERT INTO i VALUES (1, NULL, 'x')", "INSERT INTO o VALUES (5, 5, 'y')")
    sets.window("UPDATE i SET t = 'z' WHERE k = 2", "UPDATE o SET t = 'x' WHERE id = 4")
    sets.window("INSERT INTO i VALUES (1, NULL, NULL)")
    sets.window("DELETE FROM i WHERE k IS NULL")


def test_p29_correlated(sets: Lab) -> None:
    sets.create("s", "SELECT id FROM o WHERE k NOT IN (SELECT i.k FROM i WHERE i.g = o.id)")

    sets.window("INSERT INTO i VALUES (2, NULL, ''), (3, 5, '')")
    sets.window("UPDATE i SET g = 4 WHERE g = 2", "UPDATE o SET k = 3 WHERE id = 1")
    sets.window("DELETE FROM i WHERE g IN (3, 4)", "INSERT INTO o VALUES (9, NULL, '')")


def test_p29_not_of_in(sets: Lab) -> None:
    sets.create("s", "SELECT id FROM o WHERE NOT (k IN (SELECT k FROM i) AND t < 'm')")

    sets.window("INSERT INTO i VALUES (1, 2, 'x')")
    sets.window("INSERT INTO i VALUES (1, NULL, 'x')", "UPDATE o SET t = 'z' WHERE id = 3")
    sets.window("DELETE FROM i WHERE k IS NULL", "DELETE FROM o WHERE id = 1")


_ALL = {
    "more than all": "SELECT id FROM o WHERE k > ALL (SELECT k FROM i)",
    "at most all": "SELECT id FROM o WHERE k <= ALL (SELECT k FROM i)",
    "equal to all": "SELECT id FROM o WHERE k = ALL (SELECT k FROM i)",
    "unlike all": "SELECT id FROM o WHERE k <> ALL (SELECT k FROM i)",
    "correlated": "SELECT id FROM o WHERE k >= ALL (SELECT i.k FROM i WHERE i.t >= o.t)",
    "negated": "SELECT id FROM o WHERE NOT (k < ALL (SELECT k FROM i))",
}


@pytest.mark.parametrize("query", _ALL.values(), ids=_ALL.keys())
def test_p30_all_of_nothing_of_null_and_of_values(sets: Lab, query: str) -> None:
    sets.create("s", query)

    sets.window("DELETE FROM i")
    sets.window("INSERT INTO i VALUES (1, 2, 'b')")
    sets.window("INSERT INTO i VALUES (1, NULL, 'z')", "INSERT INTO o VALUES (6, 6, 'f')")
    sets.window("INSERT INTO i VALUES (1, 2, 'a'), (1, 6, 'q')")
    sets.window("DELETE FROM i WHERE k IS NULL", "UPDATE o SET k = 2 WHERE id = 3")
    sets.window("DELETE FROM i WHERE k = 6", "DELETE FROM o WHERE id = 2")


def test_p30_empty_inside_is_true_for_all(sets: Lab) -> None:
    sets.create("s", "SELECT id FROM o WHERE k > ALL (SELECT k FROM i WHERE g = 9)")

    assert len(sets.rows("TABLE s")) == 5
    [one] = sets.window("INSERT INTO i VALUES (9, 3, '')")
    [none] = sets.window("INSERT INTO i VALUES (9, NULL, '')")

    assert (one.rows_deleted, none.rows_deleted) == (4, 1)


_ANY = {
    "more than any": "SELECT id FROM o WHERE k > ANY (SELECT k FROM i)",
    "equal to any": "SELECT id FROM o WHERE k = ANY (SELECT k FROM i)",
    "unlike some": "SELECT id FROM o WHERE k <> SOME (SELECT k FROM i)",
    "negated": "SELECT id FROM o WHERE NOT (k > ANY (SELECT k FROM i))",
}


@pytest.mark.parametrize("query", _ANY.values(), ids=_ANY.keys())
def test_p30_any_of_nothing_of_null_and_of_values(sets: Lab, query: str) -> None:
    sets.create("s", query)

    sets.window("DELETE FROM i")
    sets.window("INSERT INTO i VALUES (1, 2, 'b'), (1, NULL, 'z')")
    sets.window("INSERT INTO o VALUES (6, 6, 'f')", "INSERT INTO i VALUES (1, 4, 'x')")
    sets.window("DELETE FROM i WHERE k = 2", "UPDATE o SET k = 5 WHERE id = 2")
    sets.window("DELETE FROM i WHERE k IS NULL")
