"""Create, alter, replace and drop."""
