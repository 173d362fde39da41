"""The command line: ``functory NOUN VERB``. The entry point is :func:`functory.cli.main.main`."""
