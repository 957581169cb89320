"""Reads lake tables into Spark: what the catalog says of them, their files, and the data source."""
