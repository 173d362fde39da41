"""The speed of whole deployments: three loads, beside other systems in the same run, with what each execution costs.

``make bench`` runs it; ``docs/how-to/measure-the-speed.md`` says what its figures mean. Files:

- ``options``: the command line;
- ``deployments``: servers and processes, started as a user starts them;
- ``loads``: burst, stream and calls;
- ``peers``: the other systems;
- ``cpu``, ``counts``, ``disk``: what an execution costs;
- ``row_checks``: proves after each round that nothing was left out;
- ``report``: the table and the JSON object;
- ``gates``: the limits of the counts, which a test holds.
"""
