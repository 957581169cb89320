"""The words of an enum, as users write them: in either case, or the enum's own members."""

from __future__ import annotations

from enum import Enum
from typing import TypeVar

from pgtrickle.errors import SettingError
from pgtrickle.model.text.lengths import shorten

ChoiceT = TypeVar("ChoiceT", bound=Enum)


def parse_choice(
    kind: type[ChoiceT], given: ChoiceT | str, doubt: str, hint: str | None = None
) -> ChoiceT:
    """Read a choice, or raise ST501; ``doubt`` says what does not exist, with ``{}`` for the word.

    >>> Answer = Enum("Answer", {"YES": "yes", "NO": "no"})
    >>> parse_choice(Answer, "Yes", 'the answer "{}" does not exist')
    <Answer.YES: 'yes'>
    >>> parse_choice(Answer, Answer.NO, 'the answer "{}" does not exist')
    <Answer.NO: 'no'>
    """
    if isinstance(given, kind):
        return given
    if isinstance(given, str):
        word = given.casefold()
        for one in kind:
            if one.value.casefold() == word:
                return one
    raise SettingError(
        doubt.format(shorten(given)),
        hint=hint or f"Choose one of {', '.join(str(one.value) for one in kind)}.",
    )
