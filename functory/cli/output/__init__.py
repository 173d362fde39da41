"""Turns rows into the text of one command's answer."""
