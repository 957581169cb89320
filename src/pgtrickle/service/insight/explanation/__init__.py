"""How a query is maintained, as data: operators, state, reads; and its output formats."""
