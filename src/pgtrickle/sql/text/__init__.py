"""SQL as text: lexing, limits, parsing PostgreSQL's rendering, writing it again."""
