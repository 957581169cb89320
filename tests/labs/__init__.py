"""A database, a Trickle and short words for what tests do with them."""
