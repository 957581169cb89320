"""Outboxes: the changes of stream tables, which consumers follow."""
