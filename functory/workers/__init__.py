"""From execution to result: the Celery app, claim and finish, dispatcher, reaper, the child processes."""
