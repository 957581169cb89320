"""Parsing, lowering and translating queries."""
