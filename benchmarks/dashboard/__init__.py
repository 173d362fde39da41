"""The dashboard and its API over a large history: how long reads take, what pages cost in the browser and the server.

- ``seed``: a history of any size, made of copies of a real load;
- ``reads``: each route of the pages, asked many times;
- ``live``: how long after its print a line is seen;
- ``browser``: the pages in a real Chromium, beside their budgets;
- ``streams``: what open streams cost the server;
- ``run`` in this module: everything, on PostgreSQL or SQLite.
"""
