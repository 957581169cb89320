"""The relay in reverse: messages of brokers, into inboxes."""
