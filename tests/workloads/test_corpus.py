"""The corpus is maintained as its list of findings says, and a sample of it in every run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pgtrickle.model.stream_table import Action, RefreshMode
from tests.workloads.conftest import Play
from tests.workloads.corpus.findings import KNOWN, Finding, Kind, left_out, surprises
from tests.workloads.corpus.generator import SIZES, rows_of
from tests.workloads.corpus.workload import CORPUS, STYLES
from tests.workloads.on_server import play_on_server
from tests.workloads.outcome import Outcome

pytestmark = pytest.mark.timeout(1800)  # one test waits for the whole corpus

# One of most styles, each with other operators than the one before.
SAMPLE = (
    "channels_full_by_item",
    "dates_calendar",
    "hierarchies_team_size",
    "islands_empty_shelves",
    "json_lines_of_purchases",
    "percentiles_outliers",
    "rollups_named_totals",
    "running_balance",
    "strings_lists_of_buyers",
    "topk_latest_purchase",
)


@pytest.fixture(scope="module")
def outcomes(play_on_engine: Play) -> dict[str, Outcome]:
    queries = {name: CORPUS.queries[name] for name in SAMPLE}
    return play_on_engine(replace(CORPUS, queries=queries, mode=RefreshMode.DIFFERENTIAL))


@pytest.mark.parametrize("query", SAMPLE)
def test_sample_is_the_query_after_every_cycle(outcomes: dict[str, Outcome], query: str):
    outcome = outcomes[query]

    assert outcome.failure is None
    assert outcome.text_difference is None
    assert outcome.differential


@pytest.mark.parametrize("engine", ["duckdb", "postgres"])
def test_the_list_of_findings_is_exact(engine: str):
    queries = CORPUS.queries.keys() - left_out(engine)
    outcomes = play_on_server(CORPUS, queries, cycles=3, engine=engine)

    assert list(surprises(outcomes.values(), engine)) == []


def test_the_corpus_is_as_large_as_promised():
    assert len(CORPUS.queries) >= 150
    assert len({text.partition("\n")[2] for text in CORPUS.queries.values()}) == len(CORPUS.queries)
    assert all(len(name) <= 42 for name in CORPUS.queries)  # else PostgreSQL would cut the names


def test_the_list_names_queries_of_the_corpus():
    assert set(KNOWN) <= set(CORPUS.queries)
    assert all(known.reason for known in KNOWN.values())


def test_every_query_belongs_to_the_style_that_begins_its_name():
    assert all(name.startswith(f"{style}_") for style in STYLES for name in STYLES[style])


@pytest.mark.parametrize("table", [table for table, (_, more) in SIZES.items() if more])
def test_a_range_of_rows_does_not_depend_on_those_before(table: str):
    assert rows_of(table, range(40, 60)) == rows_of(table, range(60))[40:]


class TestSurprises:
    """What a run that is other than the list is told of."""

    FINDING = Finding(Kind.REFUSED, "a quotient", "no faithful translation", ("duckdb",))

    @pytest.fixture(autouse=True)
    def list_one(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in list(KNOWN):
            monkeypatch.delitem(KNOWN, name)
        monkeypatch.setitem(KNOWN, "listed", self.FINDING)

    @staticmethod
    def _told(outcome: Outcome, engine: str = "duckdb") -> list[str]:
        return list(surprises([outcome], engine))

    def test_what_is_listed_is_none(self):
        assert self._told(Outcome("listed", refusal="no faithful translation for x")) == []

    def test_what_is_mended_is_one(self):
        assert self._told(Outcome("listed")) == ["mended, take it off the list: listed: a quotient"]

    def test_another_reason_is_one(self):
        [told] = self._told(Outcome("listed", refusal="too deep"))

        assert told.startswith("other than on the list: listed")

    def test_a_worse_kind_is_one(self):
        both = Outcome("listed", refusal="no faithful translation", failure="2 rows differ")

        [told] = self._told(both)

        assert "fails or differs: 2 rows differ" in told

    def test_another_engine_has_its_own(self):
        [told] = self._told(Outcome("listed", text_difference="1.0"), "spark")

        assert self._told(Outcome("listed"), "spark") == []
        assert told.startswith("new: listed")


def test_differential_is_what_was_followed_in_every_cycle():
    followed = Outcome("q", actions=[Action.NO_DATA, Action.DIFFERENTIAL])

    assert followed.differential
    assert not Outcome("q", actions=[Action.NO_DATA]).differential
    assert not Outcome("q", actions=[Action.DIFFERENTIAL, Action.FULL]).differential
    assert not replace(followed, refusal="no rule").differential
