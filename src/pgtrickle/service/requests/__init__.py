"""What SQL sessions ask for: the server of the request queue and the verbs it knows."""
