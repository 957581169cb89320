"""A hostile soak: attackers do their worst beside writers and a daemon, and nobody notices."""
