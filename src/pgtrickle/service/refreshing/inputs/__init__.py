"""The inputs of a stage: this process reads small ones, the executors read large ones."""
