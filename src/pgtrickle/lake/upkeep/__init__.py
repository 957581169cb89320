"""Keep a lake small: merge, expire, sweep."""
