"""Makes the retailer's rows: the same in every run, each drawn by its table and number alone."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable
from datetime import date, datetime, timedelta
from typing import Any, TypeVar

from tests.workloads.corpus.words import (
    BRANDS,
    CATEGORIES,
    CENTERS,
    COLOURS,
    FIRST_NAMES,
    KINDS,
    LAST_NAMES,
    NOUNS,
    PLACES,
    REASONS,
    SEGMENTS,
    SITES,
    TAGS,
    TITLES,
)

Row = tuple[Any, ...]
T = TypeVar("T")

FIRST_DAY = date(2023, 1, 1)
DAYS = 731
# Rows that a table starts with, and new ones in each cycle of changes.
SIZES = {
    "days": (DAYS, 0),
    "addresses": (160, 2),
    "customers": (300, 4),
    "categories": (len(CATEGORIES), 0),
    "brands": (len(BRANDS), 0),
    "items": (120, 2),
    "stores": (12, 0),
    "employees": (60, 1),
    "promotions": (20, 1),
    "store_sales": (2400, 30),
    "catalog_sales": (1200, 20),
    "web_sales": (1600, 24),
    "returns": (500, 12),
    "stock": (900, 12),
    "events": (2600, 50),
}


def rows_of(table: str, numbers: Iterable[int]) -> list[Row]:
    """Return the rows of a table with the given numbers, counted from 0."""
    make = _MAKERS[table]
    return [make(random.Random(f"{table} {number}"), number) for number in numbers]


def _maybe(draw: random.Random, value: T, share_of_null: float = 0.1) -> T | None:
    return None if draw.random() < share_of_null else value


def _key(draw: random.Random, table: str) -> int:
    """Choose a key of the first rows of a table; half of the time one of the first sixth."""
    rows = SIZES[table][0]
    return 1 + draw.randrange(rows // 6 if draw.random() < 0.5 else rows)


def _day(draw: random.Random) -> date:
    return FIRST_DAY + timedelta(days=draw.randrange(DAYS))


def _money(draw: random.Random, most: int) -> str:
    cents = draw.randint(50, most * 100)
    return f"{cents // 100}.{cents % 100:02d}"


def _days(_: random.Random, number: int) -> Row:
    day = FIRST_DAY + timedelta(days=number)
    names = {(1, 1): "New Year", (7, 4): "Summer", (12, 25): "Winter"}
    week, weekday = day.isocalendar()[1:]
    quarter = (day.month + 2) // 3
    return (day, day.year, quarter, day.month, week, weekday, names.get((day.month, day.day)))


def _addresses(draw: random.Random, number: int) -> Row:
    city, state, country = draw.choice(PLACES)
    street = f"{draw.randint(1, 99)} {draw.choice(NOUNS)} Street"
    return (number + 1, street, city, state, country, f"{draw.randrange(100_000):05d}")


def _customers(draw: random.Random, number: int) -> Row:
    first, last = draw.choice(FIRST_NAMES), draw.choice(LAST_NAMES)
    mail = f"{first}.{last}{number}@{draw.choice(('example.com', 'Example.org', 'mail.test'))}"
    likes = sorted(draw.sample(TAGS, draw.randint(0, 3)))
    limits = {"daily": draw.randint(1, 9), "quiet": draw.random() < 0.3}
    preferences = {"newsletter": draw.random() < 0.5, "likes": likes, "limits": limits}
    return (
        number + 1,
        first,
        _maybe(draw, last, 0.03),
        _maybe(draw, mail, 0.05),
        date(1950, 1, 1) + timedelta(days=draw.randrange(20_000)),
        _maybe(draw, draw.choice(SEGMENTS), 0.05),
        _maybe(draw, _key(draw, "addresses"), 0.05),
        FIRST_DAY - timedelta(days=200) + timedelta(days=draw.randrange(700)),
        _maybe(draw, draw.randrange(number) + 1, 0.5) if number else None,
        _maybe(draw, _money(draw, 5000)),
        _maybe(draw, json.dumps(preferences)),
    )


def _categories(_: random.Random, number: int) -> Row:
    name, parent = CATEGORIES[number]
    return (number + 1, name, parent)


def _brands(_: random.Random, number: int) -> Row:
    return (number + 1, *BRANDS[number])


def _items(draw: random.Random, number: int) -> Row:
    colour, noun = draw.choice(COLOURS), draw.choice(NOUNS)
    cost = draw.randint(100, 20_000)
    price = cost * draw.randint(105, 300) // 100
    attributes = {
        "size": draw.choice(("S", "M", "L", "XL")),
        "care": {"wash": draw.choice((30, 40, 60)), "iron": draw.random() < 0.5},
        "parts": [{"name": draw.choice(NOUNS), "n": draw.randint(1, 4)} for _ in range(3)],
    }
    return (
        number + 1,
        f"{noun[:2].upper()}-{number + 1:04d}-{colour[:1].upper()}",
        f"{colour.title()} {noun}",
        _maybe(draw, draw.randint(1, len(BRANDS)), 0.05),
        _maybe(draw, draw.randint(4, len(CATEGORIES)), 0.05),
        f"{price // 100}.{price % 100:02d}",
        _maybe(draw, f"{cost // 100}.{cost % 100:02d}", 0.05),
        _maybe(draw, draw.choice(("0.5", "1", "1.25", "2.0", "3.125", "10.00"))),
        colour,
        FIRST_DAY - timedelta(days=draw.randrange(900)),
        _maybe(draw, json.dumps(attributes), 0.05),
        sorted(draw.sample(TAGS, draw.randint(0, 3))),
    )


def _stores(draw: random.Random, number: int) -> Row:
    opened = date(2015, 1, 1) + timedelta(days=draw.randrange(2500))
    closed = _maybe(draw, date(2024, 9, 30), 0.8)
    name = f"{draw.choice(NOUNS)} {number + 1}"
    return (number + 1, name, 1 + number * 7, opened, closed, draw.randint(20, 90) * 10, number + 2)


def _employees(draw: random.Random, number: int) -> Row:
    first, last = draw.choice(FIRST_NAMES), draw.choice(LAST_NAMES)
    boss = None if number == 0 else 1 if number <= 12 else 2 + draw.randrange(min(number - 1, 30))
    return (
        number + 1,
        f"{first} {last}",
        TITLES[0] if number == 0 else TITLES[1] if number <= 12 else draw.choice(TITLES[2:]),
        boss,
        None if number == 0 else 1 + (number - 1) % 12,
        f"{draw.randint(2400, 9000)}.{draw.choice(('00', '50'))}",
        date(2016, 1, 1) + timedelta(days=draw.randrange(2800)),
    )


def _promotions(draw: random.Random, number: int) -> Row:
    starts = _day(draw)
    channel = draw.choice(("store", "catalog", "web", None))
    ends = starts + timedelta(days=draw.randint(10, 120))
    rate = draw.choice(("0.050", "0.100", "0.125", "0.200"))
    return (number + 1, f"{draw.choice(NOUNS)} weeks", channel, rate, starts, ends)


def _sold(draw: random.Random) -> Row:
    """Draw what every channel's sales have: customer, item, promotion, quantity and prices."""
    price = draw.randint(200, 40_000)
    return (
        _maybe(draw, _key(draw, "customers"), 0.08),
        _key(draw, "items"),
        _maybe(draw, _key(draw, "promotions"), 0.7),
        _maybe(draw, draw.randint(1, 9), 0.02),
        _maybe(draw, f"{price // 100}.{price % 100:02d}", 0.02),
        _maybe(draw, f"{price // 1000}.{price % 10}0", 0.6),
    )


def _store_sales(draw: random.Random, number: int) -> Row:
    store = 1 + draw.randrange(12)
    seller = _maybe(draw, store + 1 + 12 * draw.randrange(4), 0.05)
    return (number + 1, number // 3 + 1, _day(draw), store, seller, *_sold(draw))


def _catalog_sales(draw: random.Random, number: int) -> Row:
    day = _day(draw)
    shipped = _maybe(draw, day + timedelta(days=draw.randint(1, 40)))
    center = draw.choice(CENTERS)
    return (number + 1, number // 2 + 1, day, shipped, center, *_sold(draw), _money(draw, 20))


def _web_sales(draw: random.Random, number: int) -> Row:
    day = _day(draw)
    at = datetime(day.year, day.month, day.day) + timedelta(seconds=draw.randrange(86_400))
    shipped = _maybe(draw, day + timedelta(days=draw.randint(1, 20)))
    customer, item, promotion, *prices = _sold(draw)
    address = _maybe(draw, _key(draw, "addresses"), 0.05)
    head = (number + 1, number // 2 + 1, at, shipped, draw.choice(SITES))
    return (*head, customer, item, promotion, address, *prices, _money(draw, 15))


def _returns(draw: random.Random, number: int) -> Row:
    channel = draw.choice(("store", "store", "catalog", "web"))
    return (
        number + 1,
        channel,
        1 + draw.randrange(SIZES[f"{channel}_sales"][0]),
        _key(draw, "items"),
        _maybe(draw, _key(draw, "customers")),
        _day(draw),
        draw.randint(1, 4),
        _maybe(draw, _money(draw, 300), 0.05),
        _maybe(draw, draw.choice(REASONS), 0.15),
    )


def _stock(draw: random.Random, number: int) -> Row:
    """Return one count: five stores and 15 items take turns, a week later each time round."""
    week, place = divmod(number, 75)
    day = FIRST_DAY + timedelta(weeks=week + draw.randrange(2) * 60)
    return (1 + place // 5, 1 + place % 5, day, _maybe(draw, draw.randint(0, 60), 0.05))


def _events(draw: random.Random, number: int) -> Row:
    visitor = draw.randrange(150)
    at = datetime(2024, 3, 1) + timedelta(minutes=number * 11, seconds=draw.randrange(600))
    kind = draw.choice(KINDS)
    page = f"/{draw.choice(('shop', 'sale', 'help'))}/{draw.choice(NOUNS).lower()}"
    payload: dict[str, Any] = {"page": page, "device": draw.choice(("phone", "desk", "tablet"))}
    if kind in {"view", "cart", "buy"}:
        payload["item"] = _key(draw, "items")
    if kind == "buy":
        payload["amount"] = draw.randint(500, 30_000) / 100
        payload["lines"] = [
            {"item": _key(draw, "items"), "n": draw.randint(1, 3)}
            for _ in range(draw.randint(1, 3))
        ]
    if draw.random() < 0.3:
        payload["utm"] = {"source": draw.choice(("mail", "ads", "search"))}
    customer = visitor * 2 + 1 if visitor % 3 else None
    return (number + 1, f"v{visitor:03d}", customer, at, kind, json.dumps(payload))


_MAKERS: dict[str, Callable[[random.Random, int], Row]] = {
    "days": _days,
    "addresses": _addresses,
    "customers": _customers,
    "categories": _categories,
    "brands": _brands,
    "items": _items,
    "stores": _stores,
    "employees": _employees,
    "promotions": _promotions,
    "store_sales": _store_sales,
    "catalog_sales": _catalog_sales,
    "web_sales": _web_sales,
    "returns": _returns,
    "stock": _stock,
    "events": _events,
}
