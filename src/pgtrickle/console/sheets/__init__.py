"""One module for each panel: a view becomes a sheet."""
