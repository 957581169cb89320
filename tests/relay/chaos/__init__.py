"""Relays that are killed, brokers that are restarted and connections that are cut, for minutes."""
