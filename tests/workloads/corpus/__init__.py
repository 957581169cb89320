"""The corpus: analytical queries over a retailer with three channels, in styles people write."""
