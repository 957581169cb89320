"""Who is told of refreshes outside the database: collectors of traces, catalogs of lineage."""
