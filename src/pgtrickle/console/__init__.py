"""The consoles: what is shown of a picture, as sheets, and the terminal that shows them."""
