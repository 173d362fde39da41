"""What goes to a terminal: tables, JSON, errors, trees. No command writes colours itself."""
