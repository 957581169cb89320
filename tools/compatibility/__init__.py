"""What pg_trickle has, and what stands for it here: the facts behind docs/compatibility.md.

The facts are in the TOML files of this folder; ``facts.py`` reads them and ``page.py`` writes the
page.  tests/docs/test_compatibility.py and tests/catalog/test_compatibility.py compare them with
the code and with a catalog.
"""
