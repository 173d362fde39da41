"""Real servers for the tests: PostgreSQL, Redis, RabbitMQ and Prometheus of our own.

They run on private ports in temporary folders. The fixtures in `tests/conftest.py` call this package;
`python -m tests.services --check` lists the servers that it finds, and `--install` installs the missing ones. The
package promises three things. It never touches a server that runs on this machine for other purposes: every start
proves that the answer on the port comes from our own process. Every process ends with the test run, even a killed
one. A test without its server is skipped or fails, and never passes silently.
"""
