"""The captured sources, the way they are captured, and the upkeep of their buffers."""
