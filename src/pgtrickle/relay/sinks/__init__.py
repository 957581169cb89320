"""The kinds of receivers of a relay, one module each; ``entry.py`` lists them."""
