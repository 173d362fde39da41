"""Tests of the folder of a project with an engine."""
