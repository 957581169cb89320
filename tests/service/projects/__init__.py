"""Projects of stream tables as files."""
