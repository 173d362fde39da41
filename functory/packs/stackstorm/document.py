"""YAML of packs: plain data only; objects, aliases and repeated keys are refused.

It is the safe loader, with three more refusals: aliases (a few hundred bytes of them become gigabytes), a key that
occurs twice (StackStorm silently takes the last), and keys that are no text. Times stay texts.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import yaml

from functory.engine.errors import Invalid
from functory.engine.serialization import json_codec


class _Loader(yaml.SafeLoader):
    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()
            raise yaml.constructor.ConstructorError(
                None, None, "aliases (*name) are not read; write the value again", event.start_mark
            )
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(None, None, "a key that is no text", key.start_mark)
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None,
                    None,
                    f"the key {key.value!r} occurs twice; in criteria write {key.value}#2",
                    key.start_mark,
                )
            seen.add(key.value)
        # A key is what is written: on, yes and 1 are texts here.
        return {key.value: self.construct_object(value, deep=True) for key, value in node.value}


_Loader.yaml_implicit_resolvers = {
    first: [(tag, expression) for tag, expression in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def parse_document(text: str, place: str) -> Any:
    """The JSON value of a YAML text; ``place`` names it in errors. Raises :class:`Invalid`."""
    try:
        value = _Loader(text).get_single_data()
        json_codec.encode(_decoded(value))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f"line {mark.line + 1}: " if mark is not None else ""
        what = getattr(error, "problem", None) or str(error)
        raise Invalid(f"{place} is not the plain YAML that a pack may have", f"{line}{what}"[:300]) from None
    except (RecursionError, ValueError) as error:
        raise Invalid(f"{place} cannot be read", f"{type(error).__name__}: {str(error)[:200]}") from None
    except Invalid as error:
        raise Invalid(f"{place} cannot be read", error.what) from None
    return _decoded(value)


def _decoded(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, dict):
        return {name: _decoded(inner) for name, inner in value.items()}
    return [_decoded(inner) for inner in value] if isinstance(value, list | set) else value
