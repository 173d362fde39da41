"""Redaction: secret values are found in the forms in which programs write them, and removed before they are stored."""
