"""From execution to result: the Celery app, the dispatcher, the sandbox and its processes, the gateway to models."""
