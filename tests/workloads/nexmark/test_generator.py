"""The events of Nexmark are the same in every run, and any range of them by itself."""

from __future__ import annotations

from tests.workloads.nexmark.generator import events


def test_a_range_of_events_does_not_depend_on_those_before():
    whole, first, second = events(range(400)), events(range(130)), events(range(130, 400))

    assert whole == {table: first[table] + second[table] for table in whole}


def test_events_come_in_the_proportions_of_the_benchmark():
    counts = {table: len(rows) for table, rows in events(range(500)).items()}

    assert counts == {"person": 10, "auction": 30, "bid": 460}


def test_bids_and_sellers_name_those_who_were_there_before():
    made = events(range(2000))
    people, auctions = ({row[0]: row for row in made[table]} for table in ("person", "auction"))

    assert all(bid[5] > auctions[bid[0]][5] for bid in made["bid"])
    assert all(bid[5] > people[bid[1]][6] for bid in made["bid"])
    assert all(auction[5] > people[auction[7]][6] for auction in made["auction"])
