"""TPC-H: the standard's schema, data and 22 queries, with changes of our own."""
