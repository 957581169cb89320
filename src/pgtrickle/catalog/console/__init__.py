"""What consoles show: one statement for each part of a picture, and its lines as frozen values."""
