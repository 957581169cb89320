"""Capture by logical decoding: pgoutput's messages become rows of the change buffers."""
