"""What ``import pgtrickle`` offers: every type that a verb returns or takes, and its errors."""

from __future__ import annotations

import builtins
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import resources

import pytest

import pgtrickle
from pgtrickle import Trickle
from tools.surface_reference import SUBJECTS

# Of the standard library and other packages, and the words of ``model/words.py``.
OTHERS = {
    *("Callable", "Iterator", "Sequence", "Mapping", "Any", "Self", "None", "Iterable", "Unpack"),
    "Path",
    *(
        "BaseException",
        "TracebackType",
        "Event",
        "Daemon",
        "Fraction",
        "ExplainFormat",
        "GraphFormat",
        "AccessLevel",
    ),
    *("RecordBatchReader", "Table", "DataFrame", "SparkSession"),
}


def verbs() -> Iterator[tuple[str, inspect.Signature]]:
    for kind in (Trickle, *SUBJECTS.values()):
        for name, member in inspect.getmembers(kind, inspect.isfunction):
            if not name.startswith("_"):
                yield name, inspect.signature(member)


def names_in(annotation: object) -> set[str]:
    found = set(re.findall(r"\b[A-Z]\w+", re.sub(r'"[^"]*"', "", str(annotation))))
    return {one for one in found if not one.startswith("Any") or one == "Any"}


@pytest.mark.parametrize("name", [name for name, _ in verbs()])
def test_every_type_of_a_verb_is_exported(name: str):
    signature = dict(verbs())[name]
    parts = [signature.return_annotation, *(p.annotation for p in signature.parameters.values())]
    used = set[str]().union(*map(names_in, parts)) - OTHERS - set(dir(builtins))

    assert used <= set(pgtrickle.__all__)


@pytest.mark.parametrize("name", pgtrickle.__all__)
def test_everything_exported_is_there(name: str):
    assert getattr(pgtrickle, name) is not None
    assert name in dir(pgtrickle)


def test_what_does_not_exist_is_an_attribute_error():
    with pytest.raises(AttributeError, match="nonsense"):
        getattr(pgtrickle, "nonsense")  # noqa: B009 - mypy knows that it is not there


def test_errors_are_reached_without_another_import():
    code = "import pgtrickle; print(pgtrickle.errors.QueryError.__name__)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert found.stdout.strip() == "QueryError"


@pytest.mark.parametrize("name", [name for name, _ in verbs()])
def test_no_verb_takes_what_only_the_package_can_know(name: str):
    parameters = dict(verbs())[name].parameters

    assert not {"initiated_by", "runtime", "search_path", "lease"} & set(parameters)


def test_type_checkers_are_told_that_it_is_typed():
    assert resources.files("pgtrickle").joinpath("py.typed").is_file()


def test_importing_the_package_and_its_client_imports_nothing_heavy():
    code = (
        "import sys, pgtrickle; pgtrickle.Trickle, pgtrickle.errors;"
        "print(sorted({'pyspark', 'pandas', 'pyarrow'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert found.stdout.strip() == "[]"
