"""The predicted and the actual cost of a refresh."""
