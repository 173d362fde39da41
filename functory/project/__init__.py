"""A project: a folder whose files are functions, as people keep them in git.

:mod:`functory.project.function_files` reads the functions of a file, :mod:`functory.project.folder` those of a folder.
:mod:`functory.project.skeleton` makes a new folder, and :mod:`functory.project.follow` saves what changes while
``functory dev`` runs.
"""
