"""Stored event sources: their configuration, their lease holders and their read positions."""
