"""Inboxes: tables that receive messages once, with their stream tables."""
