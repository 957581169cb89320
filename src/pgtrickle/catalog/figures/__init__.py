"""Figures of all that the catalog knows, for metrics and summaries."""
