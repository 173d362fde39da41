"""``functory model``: the language models that functions may ask."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from functory.cli import session
from functory.cli.command_group import Yes, command_group, confirm
from functory.cli.input import model_fields as options
from functory.cli.output import models as output
from functory.cli.output.dashboard_page import Open, open_page
from functory.terminal import console
from functory.terminal.console import AsJson, CommandOutput, Quiet

app = command_group("Language models that functions may ask.")

Name = Annotated[str, typer.Argument(help="Name of the model, such as small.", show_default=False)]


@app.command(
    epilog="Example: functory model add small --adapter openai --provider-model gpt-4o-mini "
    "--api-base https://api.openai.com/v1 --secret OPENAI_API_KEY --price-in 0.15 --price-out 0.6"
)
def add(
    name: Name,
    adapter: options.Adapter = "openai",
    provider_model: options.ProviderModel = None,
    api_base: options.ApiBase = None,
    secret: options.Secret = None,
    price_in: options.PriceIn = None,
    price_out: options.PriceOut = None,
    price_cached: options.PriceCached = None,
    context: options.Context = None,
    max_output: options.MaxOutput = None,
    calls_per_minute: options.CallsPerMinute = None,
    tokens_per_minute: options.TokensPerMinute = None,
    slots: options.Slots = None,
    timeout: options.Timeout = None,
    fallback: options.Fallback = None,
    can: options.Capability = None,
    note: options.Note = None,
    json: AsJson = False,
) -> None:
    """Add a model. Functions ask it by its name, and need the grant for it: --model NAME when they are saved."""
    fields = options.fields(
        adapter=adapter,
        provider_model=provider_model,
        api_base=api_base,
        secret=secret,
        price_in=price_in,
        price_out=price_out,
        price_cached=price_cached,
        context=context,
        max_output=max_output,
        calls_per_minute=calls_per_minute,
        tokens_per_minute=tokens_per_minute,
        slots=slots,
        timeout=timeout,
        fallback=fallback,
        can=can,
        note=note,
    )
    with session.engine(create=True) as engine:
        row = engine.models.add(name, fields, author=engine.author)
        missing = engine.secrets.missing([row["secret"]]) if row["secret"] else []
        data = output.public(session.read_models(engine).model(name)) if json else {}
    if json:
        CommandOutput().value(data)
        return
    CommandOutput().styled((f"model {name} is added", ""))
    if missing:
        console.warn(f"the secret {missing[0]} is not stored yet; try: functory secret set {missing[0]}")
    console.note(f"try it: functory model test {name}")


@app.command("set", epilog="Example: functory model set small --price-in 0.2 --fallback large")
def set_(
    name: Name,
    adapter: options.Adapter = None,
    provider_model: options.ProviderModel = None,
    api_base: options.ApiBase = None,
    secret: options.Secret = None,
    price_in: options.PriceIn = None,
    price_out: options.PriceOut = None,
    price_cached: options.PriceCached = None,
    context: options.Context = None,
    max_output: options.MaxOutput = None,
    calls_per_minute: options.CallsPerMinute = None,
    tokens_per_minute: options.TokensPerMinute = None,
    slots: options.Slots = None,
    timeout: options.Timeout = None,
    fallback: options.Fallback = None,
    can: options.Capability = None,
    note: options.Note = None,
    json: AsJson = False,
) -> None:
    """Change a model; what is not given stays as it is."""
    from functory.engine.errors import Invalid

    changes = options.fields(
        adapter=adapter,
        provider_model=provider_model,
        api_base=api_base,
        secret=secret or None,
        price_in=price_in,
        price_out=price_out,
        price_cached=price_cached,
        context=context,
        max_output=max_output,
        calls_per_minute=calls_per_minute,
        tokens_per_minute=tokens_per_minute,
        slots=slots,
        timeout=timeout,
        fallback=fallback,
        can=can,
        note=note,
    )
    if not changes:
        raise Invalid(
            "nothing is to be changed", "no option was given", f"functory model set {name} --slots 4"
        )
    with session.engine() as engine:
        engine.models.update(name, changes, author=engine.author)
        data = output.public(session.read_models(engine).model(name)) if json else {}
    if json:
        CommandOutput().value(data)
        return
    CommandOutput().styled((f"model {name} is changed", ""))


@app.command("list", epilog="Example: functory model list")
def list_(json: AsJson = False, quiet: Quiet = False) -> None:
    """List models with their prices and whether they answer."""
    with session.engine() as engine:
        rows = engine.models.list()
        data = [output.public(row) for row in session.read_models(engine).all_models()] if json else ()
    CommandOutput(json=json, quiet=quiet).table(
        [output.in_list(row) for row in rows],
        {
            "name": "NAME",
            "state": "STATE",
            "adapter": "ADAPTER",
            "provider_model": "PROVIDER'S NAME",
            "price_in": "IN / 1M",
            "price_out": "OUT / 1M",
            "fallbacks": "FALLBACKS",
        },
        key="name",
        data=data,
        empty="no models yet; try: functory model add NAME",
    )


@app.command(epilog="Example: functory model show small")
def show(name: Name, open_: Open = False, json: AsJson = False) -> None:
    """Show a model with all its fields and its health."""
    with session.engine() as engine:
        row = engine.models.get(name)
        data = output.public(session.read_models(engine).model(name)) if json else {}
        if open_:
            open_page(engine, "models", name)
    if json:
        CommandOutput().value(data)
        return
    CommandOutput().record(output.shown(row))


@app.command(epilog="Example: functory model test small")
def test(name: Name, json: AsJson = False) -> None:
    """Ask a model a few short questions: does it answer, use a tool, fit a schema. This costs what it says."""
    found: list[dict[str, Any]] = []
    with session.engine(start=True) as engine:
        for one in engine.calls.test(engine.models.get(name)):
            found.append(one)
            if not json:
                CommandOutput().styled(*output.test_line(one))
    if json:
        CommandOutput().value([output.public_test(one) for one in found])
    if any(one["problem"] for one in found):
        raise typer.Exit(1)


@app.command(epilog="Example: functory model disable small")
def disable(name: Name) -> None:
    """Let no function ask a model. Calls that wait for it fail or go to its fallback."""
    with session.engine() as engine:
        engine.models.set_state(name, "disabled", author=engine.author)
    CommandOutput().styled((f"model {name} is disabled", ""))


@app.command(epilog="Example: functory model enable small")
def enable(name: Name) -> None:
    """Let functions ask a model, and forget its failures: an open breaker closes."""
    with session.engine() as engine:
        engine.models.set_state(name, "enabled", author=engine.author)
    CommandOutput().styled((f"model {name} is enabled", ""))


@app.command(epilog="Example: functory model remove small --yes")
def remove(name: Name, yes: Yes = False) -> None:
    """Delete a model. What was asked of it stays in the ledger."""
    confirm(f"Delete the model {name}?", yes)
    with session.engine() as engine:
        engine.models.remove(name, author=engine.author)
    CommandOutput().styled((f"model {name} is deleted", ""))
