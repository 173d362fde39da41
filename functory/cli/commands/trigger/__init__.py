"""The verbs of ``functory trigger``."""
