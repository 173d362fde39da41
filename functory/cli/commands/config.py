"""``functory config``: the settings in force, where each comes from, secrets masked."""

from __future__ import annotations

import os
from typing import Any

from functory.terminal.console import AsJson, CommandOutput


def config(json: AsJson = False) -> None:
    """Show the settings in force and where each one comes from. Passwords and keys are masked."""
    from functory.engine.settings import load_settings

    settings = load_settings()
    rows = [
        {
            "name": name,
            "value": _display_value(settings, name),
            "source": _setting_source(settings, name),
            "description": field.description or "",
        }
        for name, field in type(settings).model_fields.items()
    ]
    CommandOutput(json=json).table(
        rows, {"name": "SETTING", "value": "VALUE", "source": "SOURCE", "description": "MEANING"}, key="name"
    )


def _display_value(settings: Any, name: str) -> Any:
    if name == "secret_key":
        return "(set)" if settings.secret_key is not None else None
    if name == "database_url":
        return mask_url(settings.database)
    if name == "broker_url":
        return mask_url(settings.broker)
    value = getattr(settings, name)
    return value if isinstance(value, str | int | float | bool) or value is None else str(value)


def mask_url(url: str) -> str:
    """Return a URL without its password and without its query, which may contain one too."""
    scheme, separator, rest = url.partition("://")
    rest, question, _ = rest.partition("?")
    # A password may itself hold an @: the last one before the path ends the credentials.
    credentials, at, place = rest.rpartition("@")
    if at:
        user, colon, _ = credentials.partition(":")
        credentials = user + (":***" if colon else "")
    return scheme + separator + credentials + at + place + ("?…" if question else "")


def _setting_source(settings: Any, name: str) -> str:
    variables = {variable.upper() for variable in os.environ}
    if f"FUNCTORY_{name.upper()}" in variables:
        return "environment"
    if name in settings.model_fields_set:
        from functory.engine.project_folder import settings_file

        return str(settings_file())
    return "default"
