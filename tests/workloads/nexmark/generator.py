"""Makes the events of a Nexmark auction house: of each 50, one person, three auctions, 46 bids.

Ten milliseconds lie between two events. The same events come out of every run, and any range of
them by itself, because each event draws from a generator that is seeded with its number.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

Row = tuple[Any, ...]

START = datetime(2024, 1, 1)  # the columns are without time zone
_BETWEEN_EVENTS = timedelta(milliseconds=10)
_ROUND = 50  # events: a person, three auctions, and bids for the rest
_AUCTIONS_A_ROUND = 3
FIRST_ID = 1000
FIRST_CATEGORY = 10
_RECENT = 60  # bids go to one of so many latest auctions, sellers and bidders are as recent

_PLACES = (
    ("Phoenix", "AZ"),
    ("Los Angeles", "CA"),
    ("San Francisco", "CA"),
    ("Boise", "ID"),
    ("Portland", "OR"),
    ("Bend", "OR"),
    ("Seattle", "WA"),
    ("Cheyenne", "WY"),
)
_FIRST_NAMES = (
    "Peter",
    "Paul",
    "Luke",
    "John",
    "Saul",
    "Vicky",
    "Kate",
    "Julie",
    "Sarah",
    "Deiter",
)
_LAST_NAMES = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Noris")
_CHANNELS = ("Apple", "Google", "Facebook", "Baidu")


def events(numbers: Iterable[int]) -> dict[str, list[Row]]:
    """Return the rows of the events with the given numbers, by table."""
    rows: dict[str, list[Row]] = {"person": [], "auction": [], "bid": []}
    for number in numbers:
        table, row = _event(number)
        rows[table].append(row)
    return rows


def _event(number: int) -> tuple[str, Row]:
    draw = random.Random(number)
    at = START + number * _BETWEEN_EVENTS
    whole_rounds, place = divmod(number, _ROUND)
    if place == 0:
        return "person", _person(draw, FIRST_ID + whole_rounds, at)
    auctions = whole_rounds * _AUCTIONS_A_ROUND + min(place, _AUCTIONS_A_ROUND + 1) - 1
    if place <= _AUCTIONS_A_ROUND:
        return "auction", _auction(draw, FIRST_ID + auctions, at, people=whole_rounds + 1)
    return "bid", _bid(draw, at, people=whole_rounds + 1, auctions=auctions)


def _person(draw: random.Random, key: int, at: datetime) -> Row:
    first, last = draw.choice(_FIRST_NAMES), draw.choice(_LAST_NAMES)
    city, state = draw.choice(_PLACES)
    card = " ".join(f"{draw.randrange(10_000):04d}" for _ in range(4))
    email = f"{first.lower()}@example.com"
    return (key, f"{first} {last}", email, card, city, state, at, None)


def _auction(draw: random.Random, key: int, at: datetime, *, people: int) -> Row:
    initial = draw.randint(1, 1000)
    return (
        key,
        f"item {draw.randrange(1000)}",
        f"description {draw.randrange(1000)}",
        initial,
        initial + draw.randint(0, 1000),
        at,
        at + timedelta(seconds=draw.randint(2, 12)),
        _recent(draw, people, among=10),
        FIRST_CATEGORY + draw.randrange(5),
        draw.choice((None, "")),
    )


def _bid(draw: random.Random, at: datetime, *, people: int, auctions: int) -> Row:
    channel = draw.choice(_CHANNELS)
    return (
        _recent(draw, auctions, among=_RECENT),
        _recent(draw, people, among=_RECENT),
        draw.randint(100, 100_000),
        channel,
        f"https://example.com/{channel.lower()}/{draw.randrange(100)}",
        at,
        draw.choice((None, "", "note")),
    )


def _recent(draw: random.Random, made: int, *, among: int) -> int:
    """Choose one of the latest keys; half of the time one of the latest four, the hot ones."""
    reach = min(made, 4 if draw.random() < 0.5 else among)
    return FIRST_ID + made - 1 - draw.randrange(reach)
