"""Attacks by other roles of the same server; each must be refused."""
