"""``functory config``: the settings in force, where each comes from, secrets masked."""

from __future__ import annotations

from functory.terminal.console import AsJson, CommandOutput


def config(json: AsJson = False) -> None:
    """Show the settings in force and where each one comes from. Passwords and keys are masked."""
    from functory.engine.setting_display import setting_rows
    from functory.engine.settings import load_settings
    from functory.remote import address

    rows = setting_rows(load_settings())
    if (login := address.url_of_login()) is not None:
        rows = [
            row | {"value": login, "source": "functory login"} if row["name"] == "url" else row
            for row in rows
        ]
    CommandOutput(json=json).table(
        rows,
        {"name": "SETTING", "value": "VALUE", "source": "SOURCE", "description": "MEANING"},
        key="name",
    )
