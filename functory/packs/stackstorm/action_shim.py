"""The environment that a StackStorm action expects, as source text that goes in front of the action's own.

It runs inside the sandbox, so it is a text here and no module. It has the configuration as a dictionary whose errors
name a missing key, a logger, the service of values (kept in the function's state), and the contract of ``run``,
which returns a value or ``(succeeded, value)``.
"""

from __future__ import annotations

import pprint
from collections.abc import Mapping
from typing import Any

# Its name in the function's source.
NAME = "StackStorm"

_SOURCE = '''class StackStorm:
    """What StackStorm has around an action; written by functory pack import."""

    CONFIG = {config}
    SECRETS = {secrets}

    class Failed(Exception):
        """The action's run() has returned (False, …)."""

    class Config(dict):
        """The pack's configuration; an error names a missing key."""

        def __missing__(self, key):
            raise KeyError(f"the pack's configuration has no {{key!r}}; it is CONFIG in this function's source")

    class Action:
        """The base class of Python actions."""

        def __init__(self, config=None, action_service=None):
            import logging

            self.config = config if config is not None else {{}}
            self.action_service = action_service
            self.logger = logging.getLogger(type(self).__name__)

        def run(self, **kwargs):
            raise NotImplementedError

    class Service:
        """The values of the datastore, kept in this function's own state."""

        def get_value(self, name, local=True, scope="system", decrypt=False):
            from functory import state

            return state.get(name)

        def set_value(self, name, value, ttl=None, local=True, scope="system", encrypt=False):
            from functory import state

            state.set(name, value)
            return True

        def delete_value(self, name, local=True, scope="system"):
            from functory import state

            return state.delete(name)

        def get_logger(self, name):
            import logging

            return logging.getLogger(name)

    @classmethod
    def config(cls):
        from functory import secret

        return cls.Config({{**cls.CONFIG, **{{key: secret(name) for key, name in cls.SECRETS.items()}}}})

    @classmethod
    def perform(cls, action_class, parameters):
        import logging
        import sys

        form = "%(levelname)s %(name)s: %(message)s"
        logging.basicConfig(level=logging.INFO, stream=sys.stderr, format=form, force=True)
        config, service = cls.config(), cls.Service()
        try:
            action = action_class(config=config, action_service=service)
        except TypeError as error:
            # Actions of before StackStorm 1.0 take the configuration only.
            if "action_service" not in str(error):
                raise
            action = action_class(config=config)
            action.action_service = service
        result = action.run(**parameters)
        if isinstance(result, tuple) and len(result) == 2 and isinstance(result[0], bool):
            succeeded, result = result
            if not succeeded:
                raise cls.Failed(result)
        return result
'''


def shim_source(config: Mapping[str, Any], secrets: Mapping[str, str]) -> str:
    """The class ``StackStorm`` with this configuration, and the secrets (key of the configuration to the
    secret's name) that are looked up at each run."""
    written = (
        pprint.pformat(dict(value), sort_dicts=False, width=100).replace("\n", "\n" + " " * 14)
        for value in (config, secrets)
    )
    config_text, secrets_text = written
    return _SOURCE.format(config=config_text, secrets=secrets_text)
