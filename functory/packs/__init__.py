"""Importers of the packs of other systems: functions and triggers, with a report of what is left out."""
