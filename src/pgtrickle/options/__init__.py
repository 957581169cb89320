"""The options of a stream table: one definition, from which every surface takes them."""
