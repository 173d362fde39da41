"""Money: whole nano-dollars (a billionth of a US dollar), so that sums are exact. Pure.

Prices are nano-dollars for a million tokens: $0.15 for a million tokens is 150,000,000.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_CEILING, Decimal
from typing import Any

from functory.engine.errors import Invalid
from functory.engine.serialization import written_quantities

NANO = 1_000_000_000
MILLION = 1_000_000
# A billion dollars: sums of a few of them fit into a bigint.
MOST = 10**9 * NANO


def nano_dollars(given: Any, what: str) -> int:
    """Return dollars (a number, or a text such as ``$1.50``) as nano-dollars, rounded up. Raises :class:`Invalid`."""
    if isinstance(given, str):
        value = written_quantities.amount(given.strip())
    elif isinstance(given, int | float | Decimal) and not isinstance(given, bool):
        value = Decimal(str(given))
    else:
        value = None
    # Compared before it is multiplied: 1e999999 has no product.
    if value is None or not value.is_finite() or not 0 <= value <= MOST // NANO:
        raise _wrong(given, what)
    return int((value * NANO).to_integral_value(rounding=ROUND_CEILING))


def dollars(nano: int) -> str:
    """Return an amount for people: two digits after the point, or as many as a small amount needs to be seen."""
    value = Decimal(nano) / NANO
    if value == 0 or abs(value) >= 1:
        return f"${value:,.2f}"
    digits = max(2, 2 - value.adjusted())
    text = f"{value:.{digits}f}"
    kept = max(len(text.rstrip("0")), text.index(".") + 3)
    return f"${text[:kept]}"


def price_of_tokens(tokens: int, price: int) -> int:
    """Return the price of ``tokens`` at ``price`` for a million, in nano-dollars, rounded up."""
    return -(-tokens * price // MILLION)


def cost(model: Mapping[str, Any], tokens_in: int, tokens_out: int, tokens_cached: int = 0) -> int:
    """Return what a model's answer costs, in nano-dollars. ``tokens_cached`` are those of ``tokens_in`` that the
    provider had in its cache.
    """
    cached = min(tokens_cached, tokens_in)
    return (
        price_of_tokens(tokens_in - cached, model["price_in"])
        + price_of_tokens(cached, model["price_cached"])
        + price_of_tokens(tokens_out, model["price_out"])
    )


def _wrong(given: Any, what: str) -> Invalid:
    return Invalid(
        f"wrong {what} {str(given)[:60]!r}",
        "it takes US dollars from 0 to 1,000,000,000",
        "digits with a point, such as 1.50",
    )
