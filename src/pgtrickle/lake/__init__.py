"""DuckLake adapter: a catalog in PostgreSQL, Parquet files, and the sink that fills both."""
