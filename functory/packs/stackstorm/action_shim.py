"""The environment that a StackStorm action expects, as source texts: a class in the function's source, and modules.

They run inside the sandbox, so they are texts here. The class has the configuration as a dictionary whose errors
name a missing key, the service of values (kept in the function's state), and the contract of ``run``, which returns a
value or ``(succeeded, value)``. The modules have what packs import from StackStorm and what means the same here.
"""

from __future__ import annotations

import pprint
from collections.abc import Mapping
from typing import Any

# Its name in the function's source.
NAME = "StackStorm"

_BASE_ACTION = '''"""The base class of Python actions; written by functory pack import."""

import logging


class Action:
    """The base class of Python actions."""

    def __init__(self, config=None, action_service=None):
        self.config = config if config is not None else {}
        self.action_service = action_service
        self.logger = logging.getLogger(type(self).__name__)

    def run(self, **kwargs):
        raise NotImplementedError
'''

_EXCEPTIONS = '''"""Exceptions of actions; written by functory pack import."""


class ParameterRenderingFailedException(Exception):
    pass


class InvalidActionReferencedException(Exception):
    pass


class InvalidActionParameterException(Exception):
    pass
'''

_ISOTIME = '''"""Times as ISO 8601 texts, in UTC; written by functory pack import."""

from datetime import UTC, datetime


def format(dt, usec=True, offset=True):
    at = dt if isinstance(dt, datetime) else datetime.fromtimestamp(float(dt), UTC)
    at = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    text = at.strftime("%Y-%m-%dT%H:%M:%S" + (".%f" if usec else ""))
    return text + ("+00:00" if offset else "Z")


def parse(value):
    at = datetime.fromisoformat(str(value))
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
'''

# Modules of StackStorm that have a counterpart: the base class of actions (now and formerly), logs, exceptions, times.
MODULES = {
    "st2common.runners.base_action": _BASE_ACTION,
    "st2actions.runners.pythonrunner": "from st2common.runners.base_action import Action\n",
    "st2common.log": "from logging import *\n",
    "st2common.exceptions.action": _EXCEPTIONS,
    "st2common.util.isotime": _ISOTIME,
}

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
