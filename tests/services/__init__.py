"""Real servers for the tests: PostgreSQL, Redis and RabbitMQ of our own.

They run on private ports in temporary folders. The fixtures in `tests/conftest.py` call this package;
`python -m tests.services --check` says what was found and `--install` fetches what is missing. It promises
three things: a server that runs on this machine for other purposes is never touched (every start proves that
the answer on the port comes from the process that we started), every process dies with the test run, also
when that is killed, and a test that found no server says so instead of passing silently.
"""
