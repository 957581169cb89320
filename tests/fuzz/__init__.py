"""Random cases against the law of contents: generate, play, shrink, keep (docs/fuzzing.md)."""
