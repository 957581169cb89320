"""What is read comes before what reads it."""

from __future__ import annotations

from pgtrickle.scheduler.order import in_dependency_order


def test_children_follow_their_parents() -> None:
    dependencies = {"a": ["z"], "z": [], "m": ["a"]}

    assert in_dependency_order(["m", "a", "z"], dependencies) == ["z", "a", "m"]


def test_diamond_ends_with_its_tip() -> None:
    dependencies = {"tip": ["left", "right"], "left": ["base"], "right": ["base"], "base": []}

    ordered = in_dependency_order(list(dependencies), dependencies)

    assert ordered == ["base", "left", "right", "tip"]


def test_order_does_not_depend_on_the_order_given() -> None:
    assert in_dependency_order(["c", "a", "b"], {}) == in_dependency_order(["b", "c", "a"], {})


def test_nothing_is_in_order() -> None:
    assert in_dependency_order([], {"a": ["b"]}) == []


def test_members_of_a_circle_stand_together() -> None:
    reads = {"a": ["b"], "b": ["a", "x"], "c": ["a"], "x": [], "y": ["x"]}

    found = in_dependency_order(["a", "b", "c", "x", "y"], reads)

    assert abs(found.index("a") - found.index("b")) == 1
    assert found.index("x") < found.index("a") < found.index("c")
