"""The gateway: sends requests to language models, and is the only process that has their keys.

:mod:`functory.workers.gateway.gateway` claims calls from the database and stores what comes of them. An adapter speaks
to a kind of provider: ``openai`` to everything that has OpenAI's HTTP interface, ``litellm`` to all others, ``script``
answers from a file, for tests and demonstrations.
"""
