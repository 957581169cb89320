"""The files of ``monitoring/``, read by the programs for which they are made."""
