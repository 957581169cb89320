"""The flags of ``create`` and ``alter``, made from the definition of the options."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import wraps
from inspect import Parameter, signature
from typing import Annotated, Any, get_type_hints

import typer

from pgtrickle.options.option import Option, OptionVerb
from pgtrickle.options.stream_table import options_of

Command = Callable[..., None]


def taking_options(verb: OptionVerb) -> Callable[[Command], Command]:
    """Let a command take the options of a verb, one flag for each.

    The command itself has one argument ``options`` in their place: a dictionary of words, in which
    None is what was not given.
    """

    def decorate(command: Command) -> Command:
        flags = {one.name: flag_of(one, verb) for one in options_of(verb)}

        @wraps(command)
        def run(*given: Any, **named: Any) -> None:
            words = {name: _word(named.pop(name)) for name in flags}
            return command(*given, **named, options=words)

        own = signature(command)
        hints = get_type_hints(command, include_extras=True)
        parameters: list[Parameter] = []
        for one in own.parameters.values():
            if one.name == "options":
                parameters += flags.values()
            else:
                parameters.append(one.replace(annotation=hints[one.name]))
        run.__signature__ = own.replace(  # type: ignore[attr-defined]
            parameters=parameters, return_annotation=None
        )
        run.__annotations__ = {one.name: one.annotation for one in parameters}
        return run

    return decorate


def flag_of(option: Option, verb: OptionVerb) -> Parameter:
    """Return the flag of one option, as typer reads it from a signature."""
    default = option.word if verb is OptionVerb.CREATE else None
    facts: dict[str, Any] = {"help": option.help(verb)}
    names = [f"--{option.name.replace('_', '-')}"]
    kind: Any = option.kind
    if option.choices:
        kind = _choice(option, verb)
        default = None if default is None else kind(default)
        facts["case_sensitive"] = False
    elif option.kind is bool:
        names = [f"{names[0]}/--no-{names[0].removeprefix('--')}"]
    elif option.reset and option.kind is not str and verb is OptionVerb.ALTER:
        kind = str
        facts |= {"metavar": f"NUMBER|{option.reset}", "callback": _number_or(option.reset)}
    elif option.kind is not str:
        facts |= {"min": option.low, "max": option.high}
    wanted: Any = kind | None if default is None else kind
    return Parameter(
        option.name,
        Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[wanted, typer.Option(*names, **facts)],
    )


def _choice(option: Option, verb: OptionVerb) -> Any:
    """Return an enum of the words that an option takes, which typer lists."""
    return Enum(option.name, [(word, word) for word in option.words(verb)])


def _number_or(reset: str) -> Callable[[str | None], Any]:
    def read(text: str | None) -> Any:
        if text is None or text.casefold() == reset:
            return text
        try:
            return float(text)
        except ValueError:
            raise typer.BadParameter(f'give a number, or "{reset}"') from None

    return read


def _word(given: Any) -> Any:
    return given.value if isinstance(given, Enum) else given
