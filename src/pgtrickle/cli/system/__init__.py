"""Commands for the installation: set-up, settings, capture."""
