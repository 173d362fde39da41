"""The rows of the API: one class for each form that a route returns. ``openapi.json`` is made from them."""

from functory.rows.base import Redacted, Row, Text

__all__ = ["Redacted", "Row", "Text"]
