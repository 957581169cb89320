"""What a restore from a snapshot does to stored rows: compare, find differences, fill."""
