"""The compiler's mathematics: the law, the rules, the reads."""
