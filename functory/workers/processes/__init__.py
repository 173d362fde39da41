"""The programs that a process supervisor starts: the Celery worker, the embedded one, the brokerless one."""
