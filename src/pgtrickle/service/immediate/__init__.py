"""Stream tables that their writers maintain: creation, refresh by hand, and changes of the mode."""
