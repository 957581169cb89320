"""Every subcommand in one list, in the order help shows them, and where it is defined.

Only the one that is asked for is imported: all of them together take longer than many of them do.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, MutableMapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any, cast

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

COMMANDS = {
    "init": "system.init:init",
    "migrate": "system.init:migrate",
    "create": "stream_tables.create:create",
    "validate": "stream_tables.validate:validate",
    "refresh": "stream_tables.refresh:refresh",
    "verify": "stream_tables.verify:verify",
    "explain": "insight.explain:explain",
    "profile": "insight.profile:profile",
    "disk": "insight.disk:disk",
    "list": "insight.list:list_stream_tables",
    "status": "insight.status:status",
    "top": "insight.top:top",
    "ui": "insight.ui:ui",
    "health": "insight.health_check:health",
    "tree": "insight.tree:tree",
    "show": "insight.show:show",
    "history": "insight.history:history",
    "advise": "insight.advise:advise",
    "errors": "insight.errors:errors",
    "subscribe": "insight.subscribe:subscribe",
    "alter": "stream_tables.alter:alter",
    "rename": "stream_tables.rename:rename",
    "export": "stream_tables.export:export",
    "dump": "stream_tables.dump:dump",
    "restore": "stream_tables.dump:restore",
    "plan": "projects.plan:plan",
    "apply": "projects.apply:apply",
    "diff": "projects.diff:diff",
    "test": "projects.run_tests:run_tests",
    "import": "projects.write:import_",
    "init-project": "projects.write:init_project",
    "repair": "stream_tables.repair:repair",
    "drop": "stream_tables.drop:drop",
    "run": "daemon.run:run",
    "config": "system.config:config",
    "demo": "system.demo:demo",
    "doctor": "insight.doctor:doctor",
    "version": "system.version:version",
    "bulk": "stream_tables.bulk:bulk",
    "snapshot": "stream_tables.snapshot:snapshot",
    "shadow": "stream_tables.shadow:shadow",
    "outbox": "outboxes.outbox:outbox",
    "consumers": "outboxes.consumers:consumers",
    "inbound": "outboxes.inbound:inbound",
    "inbox": "outboxes.inbox:inbox",
    "relay": "outboxes.relay:relay",
    "scheduler": "scheduling.scheduler:scheduler",
    "gate": "scheduling.gate:gate",
    "watermark": "scheduling.watermark:watermark",
    "fuse": "scheduling.fuse:fuse",
    "sla": "scheduling.sla:sla",
    "group": "scheduling.group:group",
    "monitor": "scheduling.monitor:monitor",
    "cdc": "system.cdc:cdc",
    "sink": "lake.sink:sink",
    "lake": "lake.lake:lake",
}


class CommandGroup(TyperGroup):
    """The ``pgtrickle`` command, whose subcommands are imported one by one."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = _Imported()

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """List the subcommands from their source text, and import none."""
        imported = self.commands
        self.commands = {
            name: TyperCommand(name, help=_read_help(home)) for name, home in COMMANDS.items()
        }
        try:
            super().format_help(ctx, formatter)
        finally:
            self.commands = imported


class _Imported(MutableMapping[str, Any]):
    """The subcommands by name, each imported when it is looked at."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = _make(name, COMMANDS[name])
        return self._made[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._made[name] = command

    def __delitem__(self, name: str) -> None:
        del self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)

    def __contains__(self, name: object) -> bool:
        return name in COMMANDS


def _read_help(home: str) -> str | None:
    """Return the help of a subcommand from its source: a docstring, or an argument of ``Typer``."""
    module, attribute = home.split(":")
    loader = cast("Any", find_spec(f"pgtrickle.cli.{module}")).loader
    for node in ast.parse(loader.get_source(loader.name)).body:
        match node:
            case ast.FunctionDef(name=found) if found == attribute:
                return ast.get_docstring(node)
            case ast.Assign([ast.Name(found)], ast.Call(keywords=keywords)) if found == attribute:
                return next(
                    str(ast.literal_eval(one.value)) for one in keywords if one.arg == "help"
                )
    return None


def _make(name: str, home: str) -> Any:
    module, attribute = home.split(":")
    found = getattr(import_module(f"pgtrickle.cli.{module}"), attribute)
    holder = typer.Typer(add_completion=False)
    if isinstance(found, typer.Typer):
        holder.add_typer(found, name=name)
        return get_group(holder).commands[name]
    holder.command(name)(found)
    return get_command(holder)
