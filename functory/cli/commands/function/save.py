"""Verbs of ``functory function`` that save a version: add, edit.

:mod:`functory.cli.commands.function.crud` registers them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from functory.cli import session
from functory.cli.command_group import duration
from functory.cli.input import function_fields, values
from functory.cli.output import function_version
from functory.terminal import console
from functory.terminal.console import AsJson, CommandOutput, Quiet
from functory.terminal.errors import print_error

Name = Annotated[str, typer.Argument(help="Name of the function.", show_default=False)]


def add(
    files: Annotated[
        list[str],
        typer.Argument(
            help="Python files with one function each, in the order to save them; or - for stdin.",
            metavar="FILE...",
            show_default=False,
        ),
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
    lib: Annotated[
        Path | None,
        typer.Option(
            help="Folder of your own modules: those that the function imports are stored with it.",
            show_default=False,
        ),
    ] = None,
    permission: Annotated[
        list[str] | None,
        typer.Option(
            help="Permission: functions:read, :propose, :describe or :write; memory:read or :write. Repeatable.",
            show_default=False,
        ),
    ] = None,
    host: Annotated[
        list[str] | None,
        typer.Option(
            help="Host that the function may connect to: api.example.com, *.example.com:8443. Repeatable.",
            show_default=False,
        ),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            help="Language model that the function may ask; '*' for every one. Repeatable.",
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
    timeout: Annotated[float | None, duration("Time limit of one attempt, in seconds or as 2m.")] = None,
    retries: Annotated[
        int | None, typer.Option(help="Number of further attempts after a failure.", show_default=False)
    ] = None,
    limit: Annotated[
        list[str] | None,
        typer.Option(
            help="Any other limit: name=value, such as memory_bytes=1GiB or cpu=2m. Repeatable.",
            show_default=False,
        ),
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
    force: Annotated[
        bool,
        typer.Option("--force", help="Activate it even if its import fails or its content is marked bad."),
    ] = False,
    author: Annotated[
        str | None,
        typer.Option(help="Author of the version. Default: the name of the user.", show_default=False),
    ] = None,
    json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Save functions. An existing function gets a new version; options that are not given keep their values."""
    from functory.engine.errors import FunctoryError, Invalid
    from functory.engine.functions.source import parser

    if name is not None and len(files) > 1:
        raise Invalid("--name is the name of one function", f"{len(files)} files are given", "leave it out")
    # All are read first: nothing is saved when one of them is no function.
    texts = [values.read_text(file) for file in files]
    names = [parser.parse(text, name).name for text in texts]
    fields = function_fields.fields(
        dependencies=dep,
        secrets=secret,
        imports=import_,
        requirements=requirement,
        permissions=permission,
        hosts=host,
        models=model,
        read=read,
        write=write,
        subprocess=subprocess,
        metadata=metadata,
        patterns=pattern,
        compensate=compensate,
        timeout=timeout,
        retries=retries,
        limits=limit,
    )
    refused: list[FunctoryError] = []
    with session.engine(create=True) as engine:
        for number, text in enumerate(texts):
            try:
                if lib is not None:
                    from functory.engine.functions.source import modules

                    fields["modules"] = modules.reachable(text, modules.ModuleFolder(lib))
                row = function_fields.save(
                    engine,
                    text,
                    name=name,
                    fields=fields,
                    expected_version=expected_version,
                    activate=activate,
                    force=force,
                    author=author,
                )
            except FunctoryError:
                for one in refused:
                    print_error(one)
                _note_progress(names, number)
                raise
            try:
                function_version.print_saved(engine, row, CommandOutput(json=json, quiet=quiet))
            except FunctoryError as error:
                # It is saved; the others are saved too.
                refused.append(error)
    for error in refused[:-1]:
        print_error(error)
    if refused:
        raise refused[-1]


def _note_progress(names: Sequence[str], failed: int) -> None:
    """Say which functions were saved, which one failed (its place in ``names``) and which ones were not tried."""
    if len(names) == 1:
        return
    parts = (
        ("saved", names[:failed]),
        ("failed", names[failed : failed + 1]),
        ("not tried", names[failed + 1 :]),
    )
    console.note("; ".join(f"{what}: {', '.join(some)}" for what, some in parts if some))


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


VERBS = (
    (add, "functory function add parse.py --dep clean --retries 3 --metadata team=data"),
    (edit, "EDITOR=nano functory function edit parse"),
)
