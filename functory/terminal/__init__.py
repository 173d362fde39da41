"""Terminal output: tables, JSON, errors, trees. Only this room knows colours."""
