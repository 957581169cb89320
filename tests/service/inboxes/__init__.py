"""Inboxes: messages once, in order, and what becomes of them."""
