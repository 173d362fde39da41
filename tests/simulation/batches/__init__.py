"""One scenario at several batch sizes: the rows of all tables must be the same.

- ``stepped_engine``: the engine in one thread, with a clock that only the scenario moves. A batch size sets the events
  of a routing batch, the ids of a message, and with them the executions of a claim, a train and a finish.
- ``scripted_runner``: functions that run in this process.
- ``normalised_rows``: all rows of a database, with names instead of ids.
- ``scenarios_*``: the scenarios. Each takes an engine, and settles it once or more often. The rows of each settled
  state are compared.
"""
