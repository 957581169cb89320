"""From a parsed query to algebra."""
