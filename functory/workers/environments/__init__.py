"""Packages of functions: ``requirements`` are read, ``resolver`` pins them, ``builder`` installs them.

``Environments`` is the door: its ``resolve`` is called when a version is saved, its ``ensure`` before one
runs. uv does the work (``uv``), under limits and without anything of the user's configuration.
"""

from functory.workers.environments.manager import Environments, packages_of, preload_of

__all__ = ["Environments", "packages_of", "preload_of"]
