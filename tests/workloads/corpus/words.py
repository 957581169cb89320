"""The names that the retailer's rows are made of."""

from __future__ import annotations

PLACES = (
    ("Lindow", "NA", "Northland"),
    ("Carse", "NA", "Northland"),
    ("Ashby", "NB", "Northland"),
    ("Velm", "NB", "Northland"),
    ("Port Marn", "SA", "Southmark"),
    ("Tessel", "SA", "Southmark"),
    ("Old Brook", "SB", "Southmark"),
    ("Querin", "E", "Eastfold"),
)
FIRST_NAMES = ("Ada", "Bruno", "Clara", "Dario", "Edda", "Felix", "Greta", "Hugo", "Ines", "Jonas")
LAST_NAMES = ("Arden", "Brook", "Castell", "Dunmore", "Elwood", "Farrow", "Grey", "Hollis")
SEGMENTS = ("private", "business", "school", "club")
# Each with the number of its parent; the first three are the roots.
CATEGORIES = (
    ("Home", None),
    ("Outdoor", None),
    ("Office", None),
    ("Kitchen", 1),
    ("Bath", 1),
    ("Camping", 2),
    ("Garden", 2),
    ("Paper", 3),
    ("Pots", 4),
    ("Knives", 4),
    ("Towels", 5),
    ("Tents", 6),
    ("Family tents", 12),
    ("Spades", 7),
)
BRANDS = (
    ("Alder", "Northern Works"),
    ("Birk", "Northern Works"),
    ("Cobalt", "Lake Company"),
    ("Dune", "Lake Company"),
    ("Ember", "Hill & Sons"),
    ("Flint", "Hill & Sons"),
    ("Gable", None),
)
COLOURS = ("red", "green", "blue", "white", "black", "ochre")
NOUNS = ("Anchor", "Basket", "Candle", "Drum", "Easel", "Funnel", "Globe", "Hammer", "Kettle")
TAGS = ("new", "eco", "gift", "sale", "bulk", "kids")
CENTERS = ("north", "south", "night")
SITES = ("main", "outlet", "app")
REASONS = ("broken", "too small", "late", "not as shown")
TITLES = ("director", "manager", "seller", "cashier", "clerk")
KINDS = ("visit", "visit", "view", "view", "view", "cart", "cart", "buy", "search")
