"""The relay: what outboxes record, delivered to brokers, files, services and other databases."""
