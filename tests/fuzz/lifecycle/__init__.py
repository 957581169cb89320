"""Random lives of stream tables: saved, restored, altered, dumped, moved; right after each step."""
