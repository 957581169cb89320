"""The console of the terminal; the only package that imports textual."""
