"""``functory agent``: agents and their runs."""
