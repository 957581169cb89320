"""Shadow builds: a new query is loaded beside the old one, follows it, and takes its place."""
