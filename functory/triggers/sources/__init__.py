"""Where events come from: a plug-in for each kind of source, and what runs them."""
