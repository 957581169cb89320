"""Lakes, their copies and attached tables as values."""
