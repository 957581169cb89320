"""Reads lake tables into Spark: their description in the catalog, their files, the data source."""
