"""Every operator has an arm in the derivation, a rule that states its law, and a golden case."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from typing import get_args

import pytest

from pgtrickle.algebra.nodes import Aggregate, Node, Recompute
from pgtrickle.delta import derive, layout, rules
from pgtrickle.storage import merge, recompute

_NODES = get_args(Node)
_STATEFUL = (Aggregate, Recompute)  # their rule is their merge
_LINEAR = [node for node in _NODES if node not in _STATEFUL]
_GOLDEN = Path(__file__).parent / "golden"


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


@pytest.mark.parametrize("node", _NODES)
def test_each_operator_has_an_arm(node: type) -> None:
    arms = re.findall(r"case (.+):", inspect.getsource(derive))

    assert f"{node.__name__}()" in " | ".join(arms).split(" | ")


@pytest.mark.parametrize("node", _LINEAR)
def test_each_rule_states_its_equation(node: type) -> None:
    module = importlib.import_module(f"pgtrickle.delta.rules.{_snake(node.__name__)}")

    assert re.search(r"^    Δ\(.+\)  =  .+$", module.__doc__ or "", re.MULTILINE)
    assert hasattr(module, f"delta_{_snake(node.__name__)}")


def test_there_is_no_rule_without_an_operator() -> None:
    [folder] = rules.__path__
    files = {path.stem for path in Path(folder).glob("[!_]*.py")}

    assert files == {_snake(node.__name__) for node in _LINEAR}


def test_the_merge_of_an_aggregate_states_its_equation() -> None:
    assert "groups⁺  =  groups⁻ + Δ" in (merge.__doc__ or "")
    assert "accumulator" in (layout.__doc__ or "")


def test_the_merge_of_a_recomputed_operator_states_its_equation() -> None:
    assert "changes  =  query(input⁺ restricted to K)" in (recompute.__doc__ or "")


@pytest.mark.parametrize("node", _NODES)
def test_each_operator_has_a_golden_case(node: type) -> None:
    assert "-- case: " in (_GOLDEN / f"{_snake(node.__name__)}.sql").read_text()
