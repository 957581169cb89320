"""Every block of code on every page is run or compared by a test, or says why not."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator

import pytest
from typer.main import get_command

from pgtrickle.cli.main import app
from tests.pages.blocks import PAGES, ROOT, Block, read_blocks

# Pages whose blocks, of one language or all, are the business of a test that knows them.
OF_TESTS: dict[str, tuple[str, str]] = {
    "docs/architecture.md": ("text", "tests/docs/test_pages.py"),
    "docs/backup-and-restore.md": ("console", "tests/cli/test_backup_page.py"),
    "docs/errors.md": ("text", "tests/docs/test_error_examples.py"),
    "docs/operators.md": ("", "tests/docs/test_generated_docs.py"),
    "docs/projects.md": ("console", "tests/cli/test_projects.py"),
    "docs/reference/cli.md": ("", "tests/docs/test_generated_docs.py"),
    "docs/reference/python.md": ("", "tests/docs/test_generated_docs.py"),
    "docs/shadow-builds.md": ("console", "tests/cli/test_shadows.py"),
    "docs/snapshots.md": ("console", "tests/cli/test_snapshots.py"),
    "docs/tutorials/kafka-exactly-once.md": ("", "tests/relay/test_tutorial.py"),
    "docs/sql_reference.md": ("sql", "tests/service/requests/test_sql_reference.py"),
}
_REASON = 12  # letters, at least
BLOCKS = [block for page in PAGES for block in read_blocks(page)]
SHOWN = [block for block in BLOCKS if block.mark != "prepare"]


def fate(block: Block) -> str:
    """Say what becomes of a block; nothing if nobody has said it."""
    language, _ = OF_TESTS.get(block.page, ("-", ""))
    if block.mark in {"run", "prints", "file", "like"}:
        return block.mark
    if block.mark == "not run" and len(block.detail) >= _REASON:
        return "not run"
    return "of a test" if language in {"", block.language} else ""


def test_every_block_is_run_or_says_why_not() -> None:
    fates = Counter(map(fate, SHOWN))
    tested = len(SHOWN) - fates["not run"] - fates[""]
    print(f"{len(SHOWN)} blocks, {100 * tested / len(SHOWN):.0f} % tested: {dict(fates)}")

    assert [block.place for block in SHOWN if not fate(block)] == []


def test_tests_of_pages_exist() -> None:
    assert [test for _, test in OF_TESTS.values() if not (ROOT / test).is_file()] == []


@pytest.mark.parametrize(
    "block", [one for one in SHOWN if one.mark == "file"], ids=lambda block: block.place
)
def test_block_is_the_file_that_it_names(block: Block) -> None:
    assert block.text.strip() == (ROOT / block.detail).read_text(encoding="utf-8").strip()


def commands(block: Block) -> Iterator[list[str]]:
    """Yield the words of each call of ours in a block."""
    for line in block.text.replace("\\\n", " ").splitlines():
        text = line.removeprefix("$ ").strip()
        if not text.startswith("pgtrickle "):
            continue
        try:
            words = shlex.split(text.partition("  #")[0])
        except ValueError:
            continue  # a text that goes on in the next line: run by its own test
        yield words[1:]


CALLS = [
    (block.place, call)
    for block in SHOWN
    if block.language in {"sh", "bash", "console", ""}
    and not block.page.endswith("reference/cli.md")
    for call in commands(block)
]


def test_commands_on_pages_exist_with_their_options() -> None:
    assert len(CALLS) > 100
    assert [found for place, call in CALLS for found in unknown(place, call)] == []


def unknown(place: str, call: list[str]) -> Iterator[str]:
    """Yield what the command line does not know of a call."""
    command = get_command(app)
    words = [word for word in call if word not in {"|", ">", "&"}]
    while words and hasattr(command, "commands") and words[0] in command.commands:
        command = command.commands[words.pop(0)]
    if hasattr(command, "commands") and words and not words[0].startswith("-"):
        yield f"{place}: {words[0]} is no command"
    known = {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
    for word in words:
        if word.startswith("--") and word.partition("=")[0] not in known | {"--help"}:
            yield f"{place}: {word} is no option"
