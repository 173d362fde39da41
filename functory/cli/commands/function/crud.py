"""``functory function``: list, show and delete functions; registers the verbs of this folder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from functory.cli import session
from functory.cli.command_group import FunctionReference, Yes, command_group, confirm
from functory.cli.commands.function import labels, log_policy, run, save, search, stats, versions
from functory.cli.input.labels import CONTEXT
from functory.cli.output import function_version
from functory.cli.output.dashboard_page import Open, open_page
from functory.terminal.console import AsJson, CommandOutput, Quiet

if TYPE_CHECKING:
    from functory.client.functory import Functory

app = command_group("Functions and their immutable versions.")

for _verb, _example in (*save.VERBS, *versions.VERBS, *run.VERBS, *search.VERBS):
    app.command(epilog=f"Example: {_example}")(_verb)
app.command(epilog=f"Example: {labels.EXAMPLE}", context_settings=CONTEXT)(labels.label)
app.command("log-policy", epilog=f"Example: {log_policy.EXAMPLE}")(log_policy.log_policy)
app.command(epilog=f"Example: {stats.EXAMPLE}")(stats.stats)

Name = Annotated[str, typer.Argument(help="Name of the function.", show_default=False)]


@app.command("list", epilog="Example: functory function list")
def list_(json: AsJson = False, quiet: Quiet = False) -> None:
    """List all functions with their active version."""
    with session.engine() as engine:
        if json:
            _print_rows(session.read_models(engine).all_functions())
            return
        rows = engine.functions.list()
    shown = [
        row
        | {
            "version": row["number"],
            "needs": ", ".join(map(function_version.dependency_name, row["dependencies"])),
            "description": function_version.description(row),
        }
        for row in rows
    ]
    columns = {
        "name": "NAME",
        "version": "VERSION",
        "state": "STATE",
        "needs": "NEEDS",
        "created_at": "SAVED",
        "description": "DESCRIPTION",
    }
    CommandOutput(quiet=quiet).table(
        shown,
        columns,
        key="name",
        empty="no functions yet; try: functory function add FILE.py",
    )


@app.command(epilog="Example: functory function show parse@2 --source > parse.py")
def show(
    name: FunctionReference,
    source: Annotated[bool, typer.Option("--source", help="Print only the source.")] = False,
    module: Annotated[
        str | None,
        typer.Option(help="Print only the text of this module of its own.", show_default=False),
    ] = None,
    open_: Open = False,
    json: AsJson = False,
) -> None:
    """Show source, schemas and dependencies of one version."""
    from functory.cli.output import dependency_tree
    from functory.engine.errors import NotFound
    from functory.engine.tallies import track_record

    out = CommandOutput(json=json)
    with session.engine() as engine:
        row = _get(engine, name)
        if open_:
            version = ("v", row["number"]) if "@" in name else ()
            open_page(engine, "functions", row["name"], *version)
        if source:
            out.text(row["source"].rstrip("\n"))
            return
        if module is not None:
            texts = engine.functions.modules(row["name"], row["number"])
            if module not in texts:
                raise NotFound(
                    f"{row['name']} v{row['number']} has no module {module!r}",
                    "its modules are " + (", ".join(texts) or "none"),
                )
            out.text(texts[module].rstrip("\n"))
            return
        versions = engine.functions.versions(row["name"])
        dependencies = [
            d | {"exists": dependency_tree.dependency_exists(engine, d)} for d in row["dependencies"]
        ]
        whole = function_version.as_json(engine, row["name"], row["number"]) if json else {}
        missing = engine.secrets.missing(row["secrets"])
        granted, waiting = engine.grant_approvals.effective_and_pending(row)
        users = engine.functions.dependents(row["name"])
        annotation = engine.annotations.get(row["name"])
        stats = (
            None if json else engine.inspections.function_stats(row["name"], engine.now() - track_record.SPAN)
        )
    if json:
        numbers = [
            {"number": v["number"], "author": v["author"], "created_at": v["created_at"]} for v in versions
        ]
        out.value(
            whole
            | {
                "missing_dependencies": [d["name"] for d in dependencies if not d["exists"]],
                "missing_secrets": missing,
                "granted": granted.as_json(),
                "pending": waiting.as_json(),
                "used_by": users,
                "description": None if annotation is None else annotation["value"],
                "versions": numbers,
            }
        )
        return
    function_version.draw(
        out,
        row,
        versions,
        dependencies=dependencies,
        missing_secrets=missing,
        granted=granted,
        pending=waiting,
        used_by=users,
        annotation=annotation,
        record=None if stats is None else track_record.words(stats["total"]),
    )


@app.command(epilog="Example: functory function delete parse --yes")
def delete(
    name: Name,
    force: Annotated[
        bool, typer.Option("--force", help="Delete it even if functions or triggers need it.")
    ] = False,
    yes: Yes = False,
) -> None:
    """Delete a function. Its executions and versions stay readable."""
    with session.engine() as engine:
        engine.functions.get(name)
        confirm(f"Delete the function {name}?", yes)
        engine.functions.delete(name, force=force, author=engine.author)
    CommandOutput().styled((f"{name} is deleted", ""))


@app.command(epilog="Example: functory function deps parse")
def deps(name: FunctionReference, json: AsJson = False) -> None:
    """Print the dependencies of a function as a tree."""
    from functory.cli.output import dependency_tree

    out = CommandOutput(json=json)
    with session.engine() as engine:
        top = dependency_tree.build_tree(engine, _get(engine, name))
        users = engine.functions.dependents(top["name"])
    dependency_tree.print_tree(top, users, out)


def _print_rows(found: Iterable[Mapping[str, Any]]) -> None:
    from functory.rows.functions import FunctionRow

    CommandOutput(json=True).value([FunctionRow.as_json(row) for row in found])


def _get(engine: Functory, reference: str) -> dict[str, Any]:
    from functory.engine.functions import dependencies

    name, number = dependencies.parse_reference(reference)
    return engine.functions.get(name, number)
