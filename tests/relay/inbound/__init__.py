"""Inbound pipelines: messages of real brokers, into inboxes."""
