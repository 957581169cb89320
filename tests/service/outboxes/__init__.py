"""Outboxes: the changes of stream tables, as their consumers see them."""
