"""A load for a Daybook server that needs only Python's standard library.

    python3 load.py HOST:PORT KIND CALLERS BATCH JOBS

It does JOBS jobs of KIND (create, drain, both, lifecycle) with CALLERS threads, each with its own connection. It prints the
time that this took and the latencies of the calls as JSON.
"""

import http.client
import json
import sys
import threading
import time

PAYLOAD = "".join(chr(48 + (i * i * 7 + i) % 75) for i in range(100)).replace("\\", "-")
LINE = (PAYLOAD + "\n").encode()
CREATE_BATCH = 1000
DRY_SECONDS = 20


class Load:
    """The state that the threads share: the number of jobs that no thread has begun, and the latencies."""

    def __init__(self, address, jobs):
        self.address = address
        self.left = jobs
        self.lock = threading.Lock()
        self.latencies = []
        self.failure = None

    def take(self, most):
        with self.lock:
            if self.failure is not None:
                return 0
            n = min(most, self.left)
            self.left -= n
            return n

    def put_back(self, n):
        with self.lock:
            self.left += n


class Caller:
    def __init__(self, load, number):
        self.load = load
        self.runner = "runner-%d" % number
        self.connection = http.client.HTTPConnection(load.address)
        self.connection.connect()
        self.latencies = []
        self.claim_id = None

    def post(self, path, content_type, body, *statuses):
        self.connection.request("POST", path, body, {"Content-Type": content_type})
        answer = self.connection.getresponse()
        text = answer.read()
        if answer.status not in statuses:
            raise RuntimeError("POST %s: status %d: %r" % (path, answer.status, text[:300]))
        return answer.status, text

    def post_json(self, path, body, *statuses):
        return self.post(path, "application/json", json.dumps(body).encode(), *statuses)

    def create(self, n):
        if n == 1:
            self.post_json("/jobs/create", {"payload": PAYLOAD}, 201)
        else:
            self.post("/default/job/default/add", "text/plain", LINE * n, 201)

    def claim(self, most):
        status, text = self.post_json("/jobs/claim", {"runner_id": self.runner, "max": most}, 200, 204)
        if status == 204:
            return 0
        answer = json.loads(text)
        jobs = answer["jobs"] if "jobs" in answer else [answer]
        for job in jobs:
            if len(job["payload"]) != len(PAYLOAD):
                raise RuntimeError("a payload has another length than was posted: %r" % job["payload"])
        self.claim_id = jobs[0]["claim_id"]
        return len(jobs)

    def claim_some(self, most):
        began = time.perf_counter()
        while True:
            start = time.perf_counter()
            got = self.claim(most)
            if got:
                return got, time.perf_counter() - start
            if start - began > DRY_SECONDS:
                raise RuntimeError("claims returned no job for a long time, although jobs are left")

    def complete(self):
        self.post_json("/jobs/complete", {"claim_id": self.claim_id, "status": "completed"}, 200)

    def run_create(self, batch):
        while n := self.load.take(batch):
            start = time.perf_counter()
            self.create(n)
            self.latencies.append(time.perf_counter() - start)

    def run_drain(self, batch):
        while n := self.load.take(batch):
            got, took = self.claim_some(n)
            self.latencies.append(took)
            self.load.put_back(n - got)
            self.complete()

    def run_both(self, batch):
        while n := self.load.take(CREATE_BATCH):
            self.create(n)
            while n > 0:
                got, took = self.claim_some(min(n, batch))
                self.latencies.append(took)
                self.complete()
                n -= got

    def run_lifecycle(self, _batch):
        while self.load.take(1):
            start = time.perf_counter()
            self.create(1)
            self.claim_some(1)
            self.complete()
            self.latencies.append(time.perf_counter() - start)

    def run(self, kind, batch):
        try:
            getattr(self, "run_" + kind)(batch)
        except Exception as failure:
            with self.load.lock:
                self.load.failure = failure
        finally:
            self.connection.close()


def main(address, kind, callers, batch, jobs):
    load = Load(address, int(jobs))
    all_callers = [Caller(load, i) for i in range(int(callers))]
    threads = [threading.Thread(target=c.run, args=(kind, int(batch))) for c in all_callers]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - began
    if load.failure is not None:
        sys.exit("load.py: %s" % load.failure)
    print(json.dumps({"seconds": took, "latencies": [l for c in all_callers for l in c.latencies]}))


if __name__ == "__main__":
    main(*sys.argv[1:])
