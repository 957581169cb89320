"""How a query is maintained, as data: operators, state, reads; and the ways to write it down."""
