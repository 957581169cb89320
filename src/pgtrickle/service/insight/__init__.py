"""The views for users: explanations, status, health, advice."""
