"""What the commands of pipelines print in both directions."""

from __future__ import annotations

from pgtrickle.cli.output import print_json, stdout
from pgtrickle.model.streams.inbound import InboundStatus
from pgtrickle.model.streams.relay import RelayStatus
from pgtrickle.model.text.printable import printable_line


def print_status(one: RelayStatus | InboundStatus, figures: str) -> None:
    """Print what a pipeline does, and why it does not go on."""
    line = f"{one.pipeline}: {one.state}; {figures}"
    if one.dead_letters:
        line += f"; {one.dead_letters} dead letters"
    stdout().print(printable_line(line), markup=False, soft_wrap=True)
    if one.error_code:
        told = f"  {one.error_code}: {one.error}"
        stdout().print(printable_line(told), markup=False, soft_wrap=True)
        if one.hint:
            stdout().print(printable_line(f"  {one.hint}"), markup=False, soft_wrap=True)


def print_done(name: str, text: str, word: str, *, as_json: bool) -> None:
    """Print what was done to a pipeline."""
    if as_json:
        print_json({"pipeline": name, word: True})
    else:
        stdout().print(printable_line(f"{name} {text}"), markup=False)
