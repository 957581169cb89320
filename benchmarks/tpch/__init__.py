"""TPC-H at any scale: stream tables beside materialized views and full recomputation."""
