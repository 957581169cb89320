"""Copies of stream tables elsewhere: one package per kind of sink."""
