"""Packages of functions: ``requirements`` reads them, ``resolver`` pins them, ``builder`` installs them.

``Environments`` is the public class: ``resolve`` is called when a version is saved, ``ensure`` before it runs. uv does
the work (``uv``), under limits and without the user's configuration.
"""

from functory.workers.environments.environments import Environments, package_folders, preload_modules

__all__ = ["Environments", "package_folders", "preload_modules"]
