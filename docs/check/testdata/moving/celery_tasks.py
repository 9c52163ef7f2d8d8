"""Creates two tasks in Celery: one waits, and one has an eta."""

import os

from celery import Celery

app = Celery("tasks", broker=os.environ["REDIS_URL"])


@app.task(name="tasks.add")
def add(x, y):
    return x + y


add.delay(2, 3)
add.apply_async((4, 5), countdown=3600)
