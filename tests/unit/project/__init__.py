"""Tests of the folder of a project, without an engine."""
