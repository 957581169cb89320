"""The kinds of brokers from which a relay receives, one module each."""
