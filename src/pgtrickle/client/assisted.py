"""The client of a catalog's owner beside a daemon, which does the Spark work."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial, wraps
from typing import Any, NoReturn, TypeVar

from pgtrickle.client.trickle import Trickle
from pgtrickle.errors import DaemonMissingError
from pgtrickle.service.requests.asking import DAEMONS_VERBS, Asking, NotAskedError
from pgtrickle.service.runtime import Runtime

T = TypeVar("T")


class Assisted(Asking, Trickle):
    """The client of a catalog's owner beside a daemon, which does the Spark work.

    Requests that the daemon gave up before it began are executed here.
    """

    _owns_catalog = True

    def __init__(
        self, dsn: str, runtime: Runtime, schema: str, tell: Callable[[str], object]
    ) -> None:
        super().__init__(dsn, runtime, ExitStack(), schema=schema)
        self._tell = tell
        self._daemon_lives = True

    def _when_free(
        self, act: Callable[[], T], seconds: float | None, waiting: Callable[[str], object]
    ) -> T:
        """Wait for leases in the daemon, or here."""
        ask = partial(Asking._when_free, self, act, seconds, waiting)  # noqa: SLF001 - our own
        return Trickle._when_free(self, ask, seconds, waiting)  # noqa: SLF001 - our own

    def _give_up(self, verb: str) -> NoReturn:
        """Leave to this process what no request can carry, so that it reports the mistake."""
        raise NotAskedError(verb)

    def _ask_or_act(self, verb: str, *given: Any, **options: Any) -> Any:
        if self._daemon_lives:
            try:
                return getattr(Asking, verb)(self, *given, **options)
            except NotAskedError:
                pass
            except DaemonMissingError as error:
                self._daemon_lives = False
                self._tell(f"{error}: it is done here")
        return getattr(Trickle, verb)(self, *given, **options)


def _ask_or_act(verb: str) -> Callable[..., Any]:
    @wraps(getattr(Trickle, verb))
    def either(self: Assisted, *given: Any, **options: Any) -> Any:
        return self._ask_or_act(verb, *given, **options)

    return either


for _verb in DAEMONS_VERBS:
    setattr(Assisted, _verb, _ask_or_act(_verb))
