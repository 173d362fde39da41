"""The licence watch: the scenario of ``functory demo`` on real input, its functions, and the check of its results.

:mod:`functory.cli.commands.demo` shows it with the commands of the product.
"""
