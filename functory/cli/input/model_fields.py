"""The fields of a language model as options of the command line."""

from __future__ import annotations

from typing import Annotated, Any

from functory.cli.command_group import duration, option
from functory.cli.input import values

Adapter = Annotated[str | None, option("How its provider is spoken to: openai, litellm or script.")]
ProviderModel = Annotated[str | None, option("The provider's name of the model, such as gpt-4o-mini.")]
ApiBase = Annotated[str | None, option("Address of the provider, such as https://api.openai.com/v1.")]
Secret = Annotated[str | None, option("Name of the secret with the provider's key; 'none' for no key.")]
PriceIn = Annotated[float | None, option("US dollars for a million tokens of requests; 0 for a local model.")]
PriceOut = Annotated[float | None, option("US dollars for a million tokens of answers.")]
PriceCached = Annotated[
    float | None, option("US dollars for a million tokens of requests that the provider had in its cache.")
]
Context = Annotated[int | None, option("Tokens of a request and its answer together. Default: 128,000.")]
MaxOutput = Annotated[int | None, option("Tokens of the longest answer. Default: 4,096.")]
CallsPerMinute = Annotated[int | None, option("Calls that the provider takes in a minute.")]
TokensPerMinute = Annotated[int | None, option("Tokens that the provider takes in a minute.")]
Slots = Annotated[int | None, option("Calls at the same time. Default: 8.")]
Timeout = Annotated[
    float | None, duration("Time in which an answer must be there, in seconds or as 2m. Default: 60.")
]
Fallback = Annotated[
    list[str] | None,
    option(
        "Model that is asked when this one gives no answer; 'none' for no one. Repeatable, in order.",
        "--fallback",
    ),
]
Capability = Annotated[
    list[str] | None,
    option(
        "Capability: tools=json, schema=none, stream=true, vision=true, dimensions=384. Repeatable.", "--can"
    ),
]
Note = Annotated[str | None, option("What it is good for; code that chooses a model reads it.")]


def fields(**given: Any) -> dict[str, Any]:
    """Return the fields that were given; ``none`` empties one."""
    found = {name: value for name, value in given.items() if value is not None}
    if found.get("secret") == "none":
        found["secret"] = None
    fallbacks = found.pop("fallback", None)
    if fallbacks:
        found["fallbacks"] = [] if fallbacks == ["none"] else fallbacks
    can = found.pop("can", None)
    if can:
        found["capabilities"] = values.parse_pairs(can, "--can", "--can tools=json")
    return found
