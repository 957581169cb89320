"""The table of long tests names tests that exist, and the sample is a small part of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.lanes import LANES, LONG, UNIT_ALONE, is_long, is_sampled
from tools.record_long_run import BEGIN, END, PAGE, count_folders, result

ROOT = Path(__file__).resolve().parents[2]
CASES = [f"tests/lake/test_kill.py::test_any[{number}]" for number in range(600)]
SOME = [f"tests/end_to_end/test_types.py::test_any[{number}]" for number in range(600)]


@pytest.mark.parametrize("entry", LONG)
def test_long_test_exists(entry: str):
    file, _, test = entry.partition("::")
    text = (ROOT / file).read_text()

    assert re.search(rf"^def {test}\(" if test else r"\btest_", text, re.MULTILINE)


def test_a_fixed_share_of_many_cases_stays_in_every_run():
    assert all(map(is_long, CASES))
    assert 80 < len([one for one in SOME if not is_long(one)]) < 160


def test_sample_is_one_in_six_of_the_long_ones():
    assert 60 < len([one for one in CASES if is_sampled(one)]) < 140
    assert not any(is_sampled(one) for one in SOME if not is_long(one))


def test_make_unit_runs_what_the_collection_expects():
    assert f'-m "{UNIT_ALONE}"' in (ROOT / "Makefile").read_text()


def test_contributing_names_the_folders_of_each_lane():
    table = re.findall(r"^\| ([a-z ]+) \| `([a-z_ ]+)` \|", _CONTRIBUTING, re.MULTILINE)
    said = {lane.replace(" ", "_"): set(folders.split()) for lane, folders in table}

    for lane in set(LANES.values()):
        assert said[lane] == {folder for folder, its in LANES.items() if its == lane}
    assert all((ROOT / "tests" / folder).is_dir() for folder in LANES)


REPORT = """
<testsuites><testsuite timestamp="2026-01-02T03:04:05">
  <testcase classname="tests.lake.test_kill" name="a" time="90"/>
  <testcase classname="tests.lake.test_kill" name="b" time="30"><failure/></testcase>
  <testcase classname="tests.queries.test_types" name="c" time="6"><skipped/></testcase>
</testsuite></testsuites>
"""


def test_result_of_a_long_run_is_kept_by_folder():
    shown = result(count_folders(REPORT), "2026-01-02 03:04", "abc1234").splitlines()

    assert shown[-4:] == [
        "| `tests/lake` | 1 | 1 | 0 | 2.0 |",
        "| `tests/queries` | 0 | 0 | 1 | 0.1 |",
        "| `all` | 1 | 1 | 1 | 2.1 |",
        END,
    ]


def test_page_of_long_tests_has_the_marks_between_which_a_result_is_written():
    page = PAGE.read_text()

    assert page.count(BEGIN) == page.count(END) == 1
    assert page.index(BEGIN) < page.index(END)


_CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
