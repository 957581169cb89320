"""The client of a catalog's owner beside a daemon, which does the Spark work."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import cached_property, partial, wraps
from typing import Any, NoReturn, TypeVar

from pgtrickle.client.guest_subjects import GuestShadows, Means
from pgtrickle.client.shadows import ShadowVerbs
from pgtrickle.client.trickle import Trickle
from pgtrickle.errors import DaemonMissingError
from pgtrickle.model.report import RefreshReport
from pgtrickle.model.shadows.difference import ShadowDiff
from pgtrickle.model.text.names import QualifiedName
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

    @cached_property
    def shadows(self) -> AssistedShadows:
        """The verbs on shadow builds."""
        return AssistedShadows(self)

    def _ask_or_act(self, verb: str, *given: Any, **options: Any) -> Any:
        return self._asked_or_done(
            lambda: getattr(Asking, verb)(self, *given, **options),
            lambda: getattr(Trickle, verb)(self, *given, **options),
        )

    def _asked_or_done(self, ask: Callable[[], T], act: Callable[[], T]) -> T:
        if self._daemon_lives:
            try:
                return ask()
            except NotAskedError:
                pass
            except DaemonMissingError as error:
                self._daemon_lives = False
                self._tell(f"{error}: it is done here")
        return act()


class AssistedShadows(ShadowVerbs):
    """The verbs on shadow builds beside a daemon, which does the Spark work."""

    def __init__(self, client: Assisted) -> None:
        super().__init__(client._runtime, client._schema)  # noqa: SLF001 - our own
        self._client = client

    def compare_shadow(self, name: str, max_rows: int = 100) -> ShadowDiff:
        """Let the daemon compare, or do it here."""
        return self._either(
            lambda asked: asked.compare_shadow(name, max_rows),
            lambda: ShadowVerbs.compare_shadow(self, name, max_rows),
        )

    def promote_shadow(self, name: str) -> RefreshReport:
        """Let the daemon promote, or do it here."""
        return self._either(
            lambda asked: asked.promote_shadow(name),
            lambda: ShadowVerbs.promote_shadow(self, name),
        )

    def cancel_shadow(self, name: str) -> QualifiedName:
        """Let the daemon cancel what it may be refreshing, or do it here."""
        return self._either(
            lambda asked: asked.cancel_shadow(name),
            lambda: ShadowVerbs.cancel_shadow(self, name),
        )

    def _either(self, ask: Callable[[GuestShadows], T], act: Callable[[], T]) -> T:
        client = self._client
        means = Means(client._ask, client._give_up, client._give_up)  # noqa: SLF001 - our own
        return client._asked_or_done(  # noqa: SLF001 - our own
            lambda: ask(GuestShadows(self._runtime, self._schema, means)), act
        )


def _ask_or_act(verb: str) -> Callable[..., Any]:
    @wraps(getattr(Trickle, verb))
    def either(self: Assisted, *given: Any, **options: Any) -> Any:
        return self._ask_or_act(verb, *given, **options)

    return either


for _verb in DAEMONS_VERBS:
    setattr(Assisted, _verb, _ask_or_act(_verb))
