"""The version of the package, for layers that may not import the package itself."""

from typing import Final

VERSION: Final = "0.1.0"
