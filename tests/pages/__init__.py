"""The pages of the documentation, read and followed as a reader would."""
