"""Who may do what over HTTP: roles and rights, and how a request proves who sends it."""
