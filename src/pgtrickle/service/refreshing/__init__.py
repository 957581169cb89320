"""One refresh, from the claim to the commit."""
