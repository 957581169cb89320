"""Commands for lakes and sinks."""
