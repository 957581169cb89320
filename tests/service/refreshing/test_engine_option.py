"""The engine of a stream table: its own, or that of the settings, and the choice between them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pgtrickle.errors import SettingError
from pgtrickle.model.engine import EngineMode
from pgtrickle.model.stream_table import Action
from pgtrickle.plan.cost.choose import Forecast, choose
from pgtrickle.plan.cost.fit import Observation
from pgtrickle.plan.cost.work import Work
from tests.labs.lab import Lab

QUERY = (
    "SELECT c.region, count(*) AS n, sum(o.price) AS s FROM orders AS o"
    " JOIN customers AS c ON c.id = o.c_id GROUP BY c.region"
)


@pytest.fixture
def shop(lab: Lab) -> Lab:
    lab.run(
        "CREATE TABLE customers (id int PRIMARY KEY, region text)",
        "CREATE TABLE orders (id int PRIMARY KEY, c_id int, price numeric)",
        "INSERT INTO customers SELECT i, 'r' || i % 3 FROM generate_series(1, 50) AS i",
        "INSERT INTO orders SELECT i, i % 50 + 1, i * 0.5 FROM generate_series(1, 500) AS i",
    )
    lab.queries["sums"] = QUERY
    return lab


def change(lab: Lab, number: int) -> str:
    lab.run(f"UPDATE orders SET price = price + 1 WHERE id = {number}")
    report = lab.trickle.refresh_stream_table("sums")
    assert report.action is Action.DIFFERENTIAL, report.reason
    lab.check("sums")
    return report.reason


def test_stream_table_has_an_engine_of_its_own(shop: Lab) -> None:
    report = shop.trickle.create_stream_table("sums", QUERY, engine="postgres")

    assert report is not None
    assert "computed by PostgreSQL" in report.reason
    assert shop.trickle.get_stream_table("sums").engine is EngineMode.POSTGRES
    assert "engine postgres" in shop.trickle.explain_stream_table("sums")
    assert "computed by PostgreSQL" in change(shop, 1)
    shop.trickle.alter_stream_table("sums", engine="spark")
    assert "PostgreSQL" not in change(shop, 2)
    shop.trickle.alter_stream_table("sums", engine="postgres")
    assert "computed by PostgreSQL" in change(shop, 3)
    shop.trickle.alter_stream_table("sums", engine="default")
    assert shop.trickle.get_stream_table("sums").engine is None
    assert "PostgreSQL" not in change(shop, 4)
    assert shop.trickle.verify_stream_table("sums").ok


def test_auto_takes_postgresql_for_a_small_change_and_says_why(shop: Lab) -> None:
    shop.trickle.create_stream_table("sums", QUERY, engine="auto", refresh_mode="DIFFERENTIAL")

    for number in range(1, 6):
        reason = change(shop, number)
        assert "computed by PostgreSQL, predicted" in reason
        assert ", Spark " in reason
        # What a refresh takes on a busy machine may speak for the other engine the next time.
        shop.run("UPDATE pgtrickle.pgt_refresh_history SET cost = NULL")
    assert shop.trickle.verify_stream_table("sums").ok


def test_each_engine_learns_from_its_own_refreshes(shop: Lab) -> None:
    shop.trickle.create_stream_table("sums", QUERY, engine="spark", refresh_mode="DIFFERENTIAL")
    for number in range(1, 4):
        change(shop, number)
    shop.trickle.alter_stream_table("sums", engine="postgres")
    for number in range(1, 4):
        change(shop, number)

    learned = shop.rows(
        "SELECT cost ->> 'engine', count(*) FROM pgtrickle.pgt_refresh_history"
        " WHERE cost IS NOT NULL AND action = 'DIFFERENTIAL' GROUP BY 1"
    )
    assert dict(learned) == {"spark": 3, "postgres": 3}


def test_new_query_is_loaded_by_the_same_engine(shop: Lab) -> None:
    shop.trickle.create_stream_table("sums", QUERY, engine="postgres")
    shop.trickle.alter_stream_table("sums", query=f"{QUERY} HAVING count(*) > 1")

    shop.queries["sums"] = f"{QUERY} HAVING count(*) > 1"
    assert shop.trickle.get_stream_table("sums").engine is EngineMode.POSTGRES
    assert "computed by PostgreSQL" in change(shop, 7)


def test_unknown_engine_is_refused(shop: Lab) -> None:
    with pytest.raises(SettingError, match="the engine"):
        shop.trickle.create_stream_table("sums", QUERY, engine="duck")


# The choice

_SMALL = Work(refreshes=1, stages=1, reads=3, operators=6, change_rows=10, keyed_rows=10)
_LARGE = Work(refreshes=1, stages=1, reads=3, operators=6, keyed_rows=3e6, joined_rows=3e6)


def forecast(
    work: Work,
    *,
    spark_ms: float | None = None,
    postgres_ms: float | None = None,
    start_ms: float = 0.0,
) -> Forecast:
    """Forecast a DIFFERENTIAL refresh on both engines, after four that took so long on each."""
    amounts = {Action.DIFFERENTIAL: work, Action.FULL: Work(refreshes=1, scanned_rows=1e9)}
    found = []
    for engine, seen in ((EngineMode.SPARK, spark_ms), (EngineMode.POSTGRES, postgres_ms)):
        alone = choose(amounts, {}, margin=0.9, engine=engine)
        price = alone.predictions[Action.DIFFERENTIAL].price_ms
        past = [Observation(price, seen, age) for age in range(4)] if seen is not None else []
        found.append(choose(amounts, {Action.DIFFERENTIAL: past}, margin=0.9, engine=engine))
    spark, postgres = found
    return replace(spark, others=(postgres,), start_ms=start_ms).by_quickest()


def test_small_change_goes_to_postgresql_and_a_large_one_to_spark() -> None:
    assert forecast(_SMALL).engine is EngineMode.POSTGRES
    assert forecast(_LARGE).engine is EngineMode.SPARK


def test_measured_refreshes_outweigh_the_prices() -> None:
    assert forecast(_SMALL, postgres_ms=2000).engine is EngineMode.SPARK
    assert forecast(_LARGE, spark_ms=60_000).engine is EngineMode.POSTGRES


def test_start_of_an_engine_counts_until_it_runs() -> None:
    found = forecast(_LARGE, start_ms=20_000)

    assert found.engine is EngineMode.POSTGRES
    assert found.compared(Action.DIFFERENTIAL).endswith(" with its start")
    assert found.ms(Action.DIFFERENTIAL) == forecast(_LARGE).others[0].ms(Action.DIFFERENTIAL)


def test_first_load_takes_the_quicker_engine_and_starts_no_other(
    shop: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shop.trickle._runtime.engine, "slower_start", 4_000.0)

    report = shop.trickle.create_stream_table("sums", QUERY, engine="auto")

    assert report is not None
    assert report.reason.startswith("first load; computed by PostgreSQL, predicted ")
    assert report.reason.endswith(" with its start")
    shop.check("sums")


def test_engine_fits_the_action_that_is_taken() -> None:
    found = forecast(_SMALL)

    assert found.by_quickest(Action.REINITIALIZE).engine is EngineMode.SPARK
    assert found.compared(Action.DIFFERENTIAL).startswith("predicted ")
