"""Packages of functions: ``requirements`` are read, ``resolver`` pins them, ``builder`` installs them.

``Environments`` is the door: its ``resolve`` is called when a version is saved, its ``ensure`` before one
runs. uv does the work (``uv``), under limits and without anything of the user's configuration.
"""

from functory.workers.environments.environments import Environments, package_folders, preload_modules

__all__ = ["Environments", "package_folders", "preload_modules"]
