"""Templates: from an event to the input of a function, with types kept."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functory.engine.errors import Invalid
from functory.triggers.input_templates import TemplateError, compile_template

EVENT = {
    "type": "order.placed",
    "data": {
        "output": {"sku": "A-1", "stock": 2, "price": 9.5, "ok": True, "none": None},
        "items": [{"name": "first"}, {"name": "last"}],
        "a.b": {"c d": "dotted"},
        "ünï": "umlaut",
    },
}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)


def render(template: object, **context: object) -> object:
    return compile_template(template).render({"event": EVENT, "vars": {"limit": 3}} | context)


@given(json_values)
def test_a_text_that_is_one_expression_becomes_the_value_itself(value):
    assert render("{{ event.data.x }}", event={"data": {"x": value}}) is value


@given(json_values)
def test_a_template_without_expressions_renders_unchanged(value):
    try:
        template = compile_template(value)
    except Invalid:
        assert "{{" in repr(value)
    else:
        assert "{{" in repr(value) or template.render({}) == value


@given(st.text(alphabet='{}| ."[]()ad0\\', max_size=30))
def test_any_text_is_a_template_or_refused(text):
    try:
        compile_template(text).render({"a": {"d": 1}})
    except Invalid as refused:
        assert refused.what
        assert refused.why
        assert refused.try_


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{{event.data.output.stock}}", 2),
        ("{{ event.data.output.none }}", None),
        ("{{ event.data.output }}", EVENT["data"]["output"]),
        ("{{ event.data.items[0].name }}", "first"),
        ("{{ event.data.items[-1].name }}", "last"),
        ('{{ event["data"]["a.b"]["c d"] }}', "dotted"),
        ('{{ event.data["ünï"] }}', "umlaut"),
        ("{{ vars.limit }}", 3),
        ("{{ event.data.output.stock }} left", "2 left"),
        ("{{ event.type }}/{{ event.data.output.sku }}", "order.placed/A-1"),
        ("is {{ event.data.output.ok }} {{ event.data.output.none }}", "is true null"),
        ("items: {{ event.data.items }}", 'items: [{"name":"first"},{"name":"last"}]'),
        ("{{ event.data.missing | default(5) }}", 5),
        ('{{ event.missing.deeper[3] | default([1, {"a": null}]) }}', [1, {"a": None}]),
        ("{{ event.data.output.none | default(5) }}", None),
        ("{{ event.data.output | json }}", '{"sku":"A-1","stock":2,"price":9.5,"ok":true,"none":null}'),
        ("{{ event.data.output.sku | json }}", '"A-1"'),
        ("{{ event.data.output.sku | string }}", "A-1"),
        ("{{ event.data.output.price | string }}", "9.5"),
        ("{{ event.data.missing | default(0) | string }}", "0"),
        ('{{ "{{" }} braces }}', "{{ braces }}"),
        ('{{ "say \\"}}\\"" }}', 'say "}}"'),
        ("{ not } }} an expression", "{ not } }} an expression"),
        ("", ""),
        (
            {"sku": "{{ event.data.output.sku }}", "all": ["{{ vars.limit }}", {"{{ key }}": 1}], "n": 5},
            {"sku": "A-1", "all": [3, {"{{ key }}": 1}], "n": 5},
        ),
        (None, None),
    ],
)
def test_rendering(template, expected):
    result = render(template)
    assert result == expected
    assert type(result) is type(expected)


@pytest.mark.parametrize(
    ("template", "why"),
    [
        (
            "{{ event.data.output.name }}",
            "event.data.output has no member name; it has: sku, stock, price, ok, none",
        ),
        ("{{ event.data.output.sku.x }}", 'event.data.output.sku is "A-1" and has no members'),
        ("{{ event.data.items[2].name }}", "event.data.items is a list of 2 elements and has no element 2"),
        ("{{ event.data.items.name }}", "event.data.items is a list of 2 elements and has no member name"),
        ("{{ event.data[0] }}", "event.data has no member 0"),
        ('{{ event.data["a.b"].x }}', 'event.data["a.b"] has no member x; it has: c d'),
        ("{{ evnt.data }}", 'there is no "evnt" here; there is: event, vars'),
        ("{{ event.data.output.__class__ }}", "has no member __class__"),
        ("{{ event.data.items.append }}", "has no member append"),
    ],
)
def test_a_path_that_leads_nowhere_says_where_it_stopped(template, why):
    with pytest.raises(TemplateError) as refused:
        render({"deep": [template]})
    assert template.strip("{} ") in refused.value.what
    assert why in refused.value.why
    assert "default" in refused.value.try_


@pytest.mark.parametrize(
    ("template", "place", "why"),
    [
        ({"sku": ["{{ event.data"]}, "the template.sku[0]", "}} is missing at the end"),
        ("{{ event.data }", "the template", "}} is missing at"),
        ("{{ }}", "the template", "a path is missing"),
        ("{{ event. }}", "the template", "a member is missing"),
        ("{{ event.a b }}", "the template", '}} is missing at "b }}"'),
        ("{{ event[x] }}", "the template", "a number or a name in double quotes"),
        ("{{ event['x'] }}", "the template", "a number or a name in double quotes"),
        ("{{ event[0 }}", "the template", "] is missing"),
        ("{{ event.run() }}", "the template", "}} is missing at"),
        ("{{ 1 + 1 }}", "the template", "a path is missing"),
        ("{{ event | upper }}", "the template", 'no filter "upper"'),
        ("{{ event | default }}", "the template", "needs a value in parentheses"),
        ("{{ event | default(x) }}", "the template", "is not JSON"),
        ("{{ event | default(NaN) }}", "the template", "is not JSON"),
        ("{{ event | default(1 }}", "the template", ") is missing"),
        ("{{ event | json | default(1) }}", "the template", "before the other filters"),
        ('{{ "open }}', "the template", "is not JSON"),
        ("{{ event | default(" + "[" * 50_000 + ") }}", "the template", "is not JSON"),
    ],
)
def test_a_wrong_template_is_refused_with_its_place_its_reason_and_a_mend(template, place, why):
    with pytest.raises(Invalid) as refused:
        compile_template(template)
    assert refused.value.what.startswith(f"{place} is wrong at")
    assert why in refused.value.why
    assert refused.value.try_


def test_what_is_not_json_or_too_large_is_no_template():
    nested: list = []
    for _ in range(10_000):
        nested = [nested]
    for template, what in [
        (object(), "the template is not JSON"),
        ({"a": b"x"}, "the template.a is not JSON"),
        ({5: "x"}, "a member name that is not text"),
        (nested, "nested more than 100 deep"),
        (["x" * 33_000, "x" * 33_000], "more than 65536 characters"),
    ]:
        with pytest.raises(Invalid, match=what):
            compile_template(template)


def test_a_value_without_json_text_is_named_and_not_a_crash():
    deep: list = []
    for _ in range(10_000):
        deep = [deep]
    for value in (float("nan"), 10**5000, deep):
        with pytest.raises(TemplateError, match="cannot be written as JSON text"):
            render("value: {{ event.x }}", event={"x": value})
        assert render("{{ event.x }}", event={"x": value}) is value


def test_rendering_twice_gives_the_same_and_leaves_the_event_alone():
    template = compile_template({"a": ["{{ event.n }}"]})
    event = {"n": 1}
    first = template.render({"event": event})
    first["a"].append(2)
    assert template.render({"event": event}) == {"a": [1]}
    assert event == {"n": 1}
