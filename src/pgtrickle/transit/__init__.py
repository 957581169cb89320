"""PostgreSQL rows to Arrow and back: readers, carriers, COPY. Does not use Spark."""
