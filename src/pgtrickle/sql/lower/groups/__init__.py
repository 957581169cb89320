"""GROUP BY and grouping sets as operators."""
