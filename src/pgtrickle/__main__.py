"""``python -m pgtrickle``: the command line."""

from pgtrickle.cli.main import app

app()
