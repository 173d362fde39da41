"""``functory function``: save, read, compare, activate and run functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from functory.cli import session
from functory.cli.command_group import Yes, command_group, confirm
from functory.cli.input import function_fields
from functory.cli.input import values as input_values
from functory.cli.output import execution_result, function_version
from functory.terminal import console, json_fields
from functory.terminal.console import AsJson, CommandOutput, Quiet

if TYPE_CHECKING:
    from functory.client import Functory

app = command_group("Functions and their immutable versions.")

Name = Annotated[str, typer.Argument(help="Name of the function.", show_default=False)]
Reference = Annotated[
    str,
    typer.Argument(help="Function: name, or name@3 for version 3.", metavar="NAME[@N]", show_default=False),
]
Wait = Annotated[
    bool,
    typer.Option("--wait/--no-wait", help="Wait for the result, or print the id of the execution at once."),
]
Timeout = Annotated[
    float | None,
    typer.Option(help="Maximum number of seconds to wait; then exit status 124.", show_default=False),
]


@app.command(epilog="Example: functory function add parse.py --dep clean --retries 3 --metadata team=data")
def add(
    file: Annotated[
        str, typer.Argument(help="Python file with exactly one function, or - for stdin.", show_default=False)
    ],
    name: Annotated[
        str | None,
        typer.Option(help="Expected name: a source with another function is refused.", show_default=False),
    ] = None,
    dep: Annotated[
        list[str] | None,
        typer.Option(
            help="Function that this one calls: name, or name@3 for version 3. Repeatable; 'none' for no dependency.",
            show_default=False,
        ),
    ] = None,
    secret: Annotated[
        list[str] | None,
        typer.Option(help="Secret that the function may read. Repeatable.", show_default=False),
    ] = None,
    import_: Annotated[
        list[str] | None,
        typer.Option("--import", help="Package that the function imports. Repeatable.", show_default=False),
    ] = None,
    requirement: Annotated[
        list[str] | None,
        typer.Option(
            "--requirement",
            "-r",
            help="Package with allowed versions, such as 'pandas>=2,<3'. Repeatable.",
            show_default=False,
        ),
    ] = None,
    permission: Annotated[
        list[str] | None,
        typer.Option(help="Permission: functions:read or functions:write. Repeatable.", show_default=False),
    ] = None,
    host: Annotated[
        list[str] | None,
        typer.Option(
            help="Host that the function may connect to: api.example.com, *.example.com:8443. Repeatable.",
            show_default=False,
        ),
    ] = None,
    read: Annotated[
        list[str] | None,
        typer.Option(help="File or folder that the function may read. Repeatable.", show_default=False),
    ] = None,
    write: Annotated[
        list[str] | None,
        typer.Option(
            help="File or folder that the function may read and write. Repeatable.", show_default=False
        ),
    ] = None,
    subprocess: Annotated[
        bool | None,
        typer.Option(
            "--subprocess/--no-subprocess", help="Allow the function to start programs.", show_default=False
        ),
    ] = None,
    metadata: Annotated[
        list[str] | None,
        typer.Option(
            help="Metadata: key=value. A value that is valid JSON is read as JSON. Repeatable.",
            show_default=False,
        ),
    ] = None,
    pattern: Annotated[
        list[str] | None,
        typer.Option(
            help="Output pattern: name=pattern, as JSON or a regular expression. Repeatable.",
            show_default=False,
        ),
    ] = None,
    compensate: Annotated[
        str | None,
        typer.Option(
            help="Function that compensates this one after a failure: name, or name@3; 'none' for no function.",
            metavar="NAME[@N]",
            show_default=False,
        ),
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(help="Time limit of one attempt, in seconds.", show_default=False)
    ] = None,
    retries: Annotated[
        int | None, typer.Option(help="Number of further attempts after a failure.", show_default=False)
    ] = None,
    expected_version: Annotated[
        int | None,
        typer.Option(
            help="Fail unless this is the active version (0: the function is new).", show_default=False
        ),
    ] = None,
    activate: Annotated[
        bool, typer.Option("--activate/--no-activate", help="Activate the new version.")
    ] = True,
    author: Annotated[
        str | None,
        typer.Option(help="Author of the version. Default: the name of the user.", show_default=False),
    ] = None,
    json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Save a function. An existing function gets a new version; options that are not given keep their values."""
    text = input_values.read_text(file)
    fields = function_fields.fields(
        dependencies=dep,
        secrets=secret,
        imports=import_,
        requirements=requirement,
        permissions=permission,
        hosts=host,
        read=read,
        write=write,
        subprocess=subprocess,
        metadata=metadata,
        patterns=pattern,
        compensate=compensate,
        timeout=timeout,
        retries=retries,
    )
    with session.engine() as engine:
        row = function_fields.save(
            engine,
            text,
            name=name,
            fields=fields,
            expected_version=expected_version,
            activate=activate,
            author=author,
        )
        function_version.print_saved(engine, row, CommandOutput(json=json, quiet=quiet))


@app.command("list", epilog="Example: functory function list")
def list_(json: AsJson = False, quiet: Quiet = False) -> None:
    """List all functions with their active version."""
    with session.engine() as engine:
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
    CommandOutput(json=json, quiet=quiet).table(
        shown,
        columns,
        key="name",
        data=[json_fields.function(row) for row in rows],
        empty="no functions yet; try: functory function add FILE.py",
    )


@app.command(epilog="Example: functory function show parse@2 --source > parse.py")
def show(
    name: Reference,
    source: Annotated[bool, typer.Option("--source", help="Print only the source.")] = False,
    json: AsJson = False,
) -> None:
    """Show source, schemas and dependencies of one version."""
    from functory.cli.output import dependency_tree

    out = CommandOutput(json=json)
    with session.engine() as engine:
        row = _get(engine, name)
        if source:
            out.lines([row["source"].rstrip("\n")])
            return
        versions = engine.functions.versions(row["name"])
        dependencies = [
            d | {"exists": dependency_tree.dependency_exists(engine, d)} for d in row["dependencies"]
        ]
        missing = engine.secrets.missing(row["secrets"])
        granted, waiting = engine.grant_approvals.effective_and_pending(row)
        users = engine.functions.dependents(row["name"])
    if json:
        numbers = [
            {"number": v["number"], "author": v["author"], "created_at": v["created_at"]} for v in versions
        ]
        out.value(
            json_fields.function(row, source=True)
            | {
                "dependencies": dependencies,
                "missing_secrets": missing,
                "granted": granted.as_json(),
                "pending": waiting.as_json(),
                "used_by": users,
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
    )


@app.command(epilog="Example: EDITOR=nano functory function edit parse")
def edit(name: Name, json: AsJson = False, quiet: Quiet = False) -> None:
    """Edit the active version in $EDITOR. A change is saved as a new version."""
    from functory.cli.input import editor
    from functory.engine.errors import Invalid

    with session.engine() as engine:
        row = engine.functions.get(name)
        text = editor.edit_text(row["source"])
        if text is None or text == row["source"]:
            console.note(f"{name} v{row['number']} is unchanged")
            return
        try:
            row = engine.functions.update(
                name, source=text, author=engine.author, expected_version=row["active"] or 0
            )
        except Invalid as error:
            kept = editor.save_draft(name, text)
            raise Invalid(
                error.what, error.why, f"{error.try_ + '; ' if error.try_ else ''}your text is kept in {kept}"
            ) from None
        function_version.print_saved(engine, row, CommandOutput(json=json, quiet=quiet))


@app.command(epilog="Example: functory function diff parse 1 3")
def diff(
    name: Name,
    older: Annotated[int, typer.Argument(metavar="A", help="Number of a version.", show_default=False)],
    newer: Annotated[
        int | None,
        typer.Argument(
            metavar="[B]", help="Number of another version. Default: the active version.", show_default=False
        ),
    ] = None,
    json: AsJson = False,
) -> None:
    """Show the differences between two versions: source and all other fields, as a unified diff."""
    from functory.cli.output import version_diff

    with session.engine() as engine:
        before, after = engine.functions.get(name, older), engine.functions.get(name, newer)
    lines = version_diff.unified(before, after)
    out = CommandOutput(json=json)
    if json:
        changed = [field for field in version_diff.COMPARED_FIELDS if before[field] != after[field]]
        out.value(
            {
                "name": name,
                "from": before["number"],
                "to": after["number"],
                "changed": changed,
                "diff": "\n".join(lines),
            }
        )
        return
    colours = {"+": "green", "-": "red", "@": "cyan"}
    for line in lines:
        out.styled((line, "bold" if line[:3] in ("+++", "---") else colours.get(line[:1], "")))
    if not lines:
        console.note(f"v{before['number']} and v{after['number']} of {name} are equal")


@app.command(epilog="Example: functory function versions parse")
def versions(name: Name, json: AsJson = False, quiet: Quiet = False) -> None:
    """List all versions, newest first."""
    with session.engine() as engine:
        rows = engine.functions.versions(name)
    shown = [
        row
        | {
            "is_active": "active" if row["active"] == row["number"] else "",
            "short": row["sha256"][:12],
            "reference": f"{row['name']}@{row['number']}",
        }
        for row in rows
    ]
    columns = {
        "number": "VERSION",
        "is_active": "ACTIVE",
        "created_at": "SAVED",
        "author": "AUTHOR",
        "short": "SHA256",
    }
    CommandOutput(json=json, quiet=quiet).table(
        shown, columns, key="reference", data=[json_fields.function(row) for row in rows]
    )


@app.command(epilog="Example: functory function activate parse 2")
def activate(
    name: Name,
    number: Annotated[int, typer.Argument(metavar="N", help="Number of the version.", show_default=False)],
    expected_version: Annotated[
        int | None, typer.Option(help="Fail unless this is the active version.", show_default=False)
    ] = None,
    json: AsJson = False,
) -> None:
    """Make a version the active one. A disabled function is enabled again."""
    with session.engine() as engine:
        row = engine.functions.activate(name, number, author=engine.author, expected_version=expected_version)
    _print_result(f"{name} v{row['number']} is active", json_fields.function(row), json)


@app.command(epilog="Example: functory function rollback parse")
def rollback(name: Name, json: AsJson = False) -> None:
    """Activate the version before the active one."""
    with session.engine() as engine:
        row = engine.functions.rollback(name, author=engine.author)
    _print_result(f"{name} v{row['number']} is active again", json_fields.function(row), json)


@app.command(epilog="Example: functory function disable parse")
def disable(name: Name, json: AsJson = False) -> None:
    """Disable a function: no more executions start. Its versions stay."""
    with session.engine() as engine:
        engine.functions.disable(name, author=engine.author)
        row = engine.functions.get(name)
    _print_result(
        f"{name} is disabled; to enable it: functory function activate {name} {row['number']}",
        json_fields.function(row),
        json,
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
    _print_result(f"{name} is deleted", {}, False)


@app.command(epilog="Example: functory function run parse --input 'rows=[1, 2]' --timeout 10")
def run(
    name: Reference,
    input_: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            "-i",
            help="Input: parameter=value. A value that is valid JSON is read as JSON. Repeatable.",
            show_default=False,
        ),
    ] = None,
    input_json: Annotated[
        str | None,
        typer.Option(help="Whole input: JSON text, @file, or - for stdin.", show_default=False),
    ] = None,
    wait: Wait = True,
    timeout: Timeout = None,
    json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Run a function and print its result as JSON. Exit status 1 when it fails."""
    from functory.engine.functions import dependencies

    values = input_values.read_json_object(input_json, "--input-json") if input_json is not None else {}
    values |= input_values.parse_pairs(input_ or (), "--input")
    out = CommandOutput(json=json, quiet=quiet)
    with session.engine() as engine:
        function, version = dependencies.parse_reference(name)
        row = engine.executions.start(
            function,
            lambda found: input_values.coerce_strings(values, input_ or (), found["input_schema"]),
            version=version,
            cause="manual",
        )
        if not wait:
            execution_result.print_queued(engine, row, out)
            return
        engine.start()
        execution_result.print_result(engine, execution_result.wait(engine, row["id"], timeout), out)


@app.command(epilog="Example: functory function deps parse")
def deps(name: Reference, json: AsJson = False) -> None:
    """Print the dependencies of a function as a tree."""
    from functory.cli.output import dependency_tree

    out = CommandOutput(json=json)
    with session.engine() as engine:
        top = dependency_tree.build_tree(engine, _get(engine, name))
        users = engine.functions.dependents(top["name"])
    dependency_tree.print_tree(top, users, out)


def _get(engine: Functory, reference: str) -> dict[str, Any]:
    from functory.engine.functions import dependencies

    name, number = dependencies.parse_reference(reference)
    return engine.functions.get(name, number)


def _print_result(message: str, data: Mapping[str, Any], json: bool) -> None:
    out = CommandOutput(json=json)
    out.value(data) if json else out.styled((message, ""))
