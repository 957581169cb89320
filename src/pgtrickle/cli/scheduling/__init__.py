"""Commands that hold the scheduler back."""
