"""Nexmark: people, auctions and bids of an auction house, with its classic queries as batch SQL."""
