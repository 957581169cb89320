"""From SQL text to algebra and back: parse, bind, lower, emit."""
