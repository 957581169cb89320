"""The relational algebra of defining queries: frozen values without behaviour."""
