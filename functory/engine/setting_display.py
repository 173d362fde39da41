"""The settings in force and where each comes from, without passwords and keys."""

from __future__ import annotations

import os
from typing import Any

from functory.engine.project_folder import settings_file
from functory.engine.secret_files import named_files
from functory.engine.settings import Settings


def setting_rows(settings: Settings) -> list[dict[str, Any]]:
    """Return each setting with its name, value, source and description."""
    return [
        {
            "name": name,
            "value": _value(settings, name),
            "source": _source(settings, name),
            "description": field.description or "",
        }
        for name, field in type(settings).model_fields.items()
    ]


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


def _value(settings: Settings, name: str) -> Any:
    if name == "secret_key":
        return "(set)" if settings.secret_key is not None else None
    if name == "database_url":
        return mask_url(settings.database)
    if name == "broker_url":
        return mask_url(settings.broker)
    value = getattr(settings, name)
    return value if isinstance(value, str | int | float | bool) or value is None else str(value)


def _source(settings: Settings, name: str) -> str:
    variables = {variable.upper() for variable in os.environ}
    if f"FUNCTORY_{name.upper()}" in variables:
        return "environment"
    if name in (files := named_files()):
        return str(files[name])
    if name in settings.model_fields_set:
        return str(settings_file())
    return "default"
