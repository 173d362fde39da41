"""The public names for source plug-ins.

A plug-in is a subclass of :class:`SourcePlugin`, named by an entry point of the group ``functory.sources``::

    from functory.sources import IncomingEvent, SourceConfig, SourceContext, SourcePlugin

    class Config(SourceConfig):
        harbour: str

    class Tides(SourcePlugin):
        kind, summary, types, runs = "tides", "high and low water", ("tide.turned",), True
        Config = Config

        def run(self, context: SourceContext) -> None:
            while not context.stop_event.wait(60):
                turn = read_gauge(context.config.harbour)
                context.put([IncomingEvent("tide.turned", {"height": turn.height}, key=turn.id)])

A plug-in raises :class:`Invalid` for a configuration that cannot work. It lets :class:`Stale` and
:class:`Unavailable` through, which ``put`` raises. See ``docs/how-to/write-a-source.md``.
"""

from functory.engine.errors import Invalid, Stale, Unavailable
from functory.engine.events.receipts import IncomingEvent
from functory.triggers.sources.plugin import SourceConfig, SourceContext, SourcePlugin

__all__ = [
    "SourcePlugin",
    "SourceConfig",
    "SourceContext",
    "IncomingEvent",
    "Invalid",
    "Stale",
    "Unavailable",
]
