"""Does the jobs of one type until SIGTERM or SIGINT: python3 worker.py TYPE

The work is to count the words of the payload. Replace count_words by your own work.

This worker relies on the following:

- The server gives a job to one claim at a time, and takes it back if the lease ends. So the worker tickles its jobs.
- A late worker cannot end a job that another worker has: each request names the claim, and the server refuses it if the claim
  no longer holds the job. The worker then drops its result, because the other worker reports its own.
- A job may run more than once: if a worker is killed before its report, another worker does the job. So the work must be
  safe to repeat. Write its effects so that a second run changes nothing, for example under the job's id.
"""

import concurrent.futures
import json
import os
import random
import re
import signal
import socket
import sys
import threading
import time
import uuid

import server
from server import log

RUNNER = f"{socket.gethostname()}-{os.getpid()}-{random.randrange(1 << 32):08x}"
THREADS = 8
# How many jobs one claim requests. Their outcomes are reported together when the last of them has ended, so choose a
# number of jobs that takes seconds, not minutes.
MAX = 64
# How long the server waits for a tickle before it gives the jobs to another worker.
LEASE_MS = int(os.environ.get("LEASE_MS", "30000"))
# How long a claim waits at the server for a job. The worker finishes this request before it stops, so it is short.
WAIT_MS = 2000
# How long the worker repeats a report. It tickles during this time, so without a bound no other worker would get the jobs.
REPORT_SECONDS = 600
# The same after SIGTERM. It begins when the last job has ended, so a supervisor must wait for the longest job and this time
# before it sends SIGKILL: TimeoutStopSec of systemd, terminationGracePeriodSeconds of Kubernetes.
STOP_SECONDS = 10
# The server accepts an output of 4 MiB, an error of 64 KiB and a body of 8 MiB. It refuses all outcomes of a request if one of
# them is longer, so the worker keeps these bounds itself.
OUTPUT_BYTES = 4 << 20
ERROR_BYTES = 60 << 10
BODY_BYTES = 6 << 20
WORK_MS = int(os.environ.get("WORK_MS", "0"))  # makes the work slow, so that you can interrupt it


class Stop:
    """The time of SIGTERM or SIGINT. A plain value: a signal handler must not take the lock of a threading.Event."""

    at = None

    @classmethod
    def signal(cls, *_):
        cls.at = cls.at or time.monotonic()

    @classmethod
    def overdue(cls, since=0.0):
        return cls.at is not None and time.monotonic() > max(cls.at, since) + STOP_SECONDS


class Failed(Exception):
    """The job can never succeed. It ends as failed, and does not run again."""


class Lost(Exception):
    """The worker no longer holds the job, or cannot be sure of it."""


def count_words(payload, check):
    """The work. A program with long jobs calls check() between its steps, and before each effect outside of it."""
    end = time.monotonic() + WORK_MS / 1000
    while time.monotonic() < end:
        check()
        time.sleep(min(0.05, max(0.0, end - time.monotonic())))
    words = len(re.findall(r"[A-Za-z0-9]+", payload))
    if words == 0:
        raise Failed("the line has no words")
    return {"words": words}


class Claim:
    """The jobs of one claim while the worker holds them."""

    def __init__(self, answer, asked_at):
        self.id = answer["claim_id"]
        self.jobs = answer["jobs"]
        self.lease = answer["lease_ms"] / 1000
        # The lease began when the server handed the jobs out, after the worker had sent the request. So the lease ends no
        # earlier than the worker assumes.
        self.held_at = asked_at
        self.gone = set()  # jobs that the server has taken back
        self.done = threading.Event()

    def check(self, job_id):
        if job_id in self.gone or time.monotonic() > self.held_at + self.lease:
            raise Lost

    def tickle(self):
        """Extends the lease. Returns False if the server did not answer."""
        ids = [job["job_id"] for job in self.jobs if job["job_id"] not in self.gone]
        if not ids:
            return True
        sent = time.monotonic()
        try:
            answer = server.post("/jobs/tickle", {"claim_id": self.id, "runner_id": RUNNER, "job_ids": ids},
                                 timeout=self.lease / 3, give_up=lambda: True)
            self.held_at = sent
        except server.Refused as e:  # none of the jobs is held
            answer = e.document
        except server.Away as e:
            log(str(e))
            return False
        for lost in answer.get("lost") or []:
            log(f"job {lost['job_id']}: {lost['code']}")
            self.gone.add(lost["job_id"])
        return True

    def keep(self):
        """Tickles until the outcomes are reported: jobs that wait for the report need their lease, too."""
        wait = self.lease / 3
        while not self.done.wait(wait):
            # A server that restarts keeps all leases. So if it is unreachable, the work continues until the lease has ended
            # by this worker's clock, and the next tickle comes sooner.
            wait = self.lease / 3 if self.tickle() else min(1.0, self.lease / 10)


def encode(value):
    """Returns value as JSON. Raises TypeError or ValueError if JSON or UTF-8 cannot hold it."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False).encode()


def run(claim, job):
    """Does one job. Returns its outcome as JSON, or None if the worker must not report one."""
    job_id = job["job_id"]
    try:
        claim.check(job_id)
        # An output that cannot be encoded must fail this job, not the report of all jobs.
        output = encode(count_words(job.get("payload") or "", lambda: claim.check(job_id)))
        if len(output) > OUTPUT_BYTES:
            raise Failed(f"the output has {len(output)} bytes; the server accepts {OUTPUT_BYTES}")
        return b'{"job_id": %s, "code": "ok", "output": %s}' % (encode(job_id), output)
    except Lost:
        return None
    except Failed as e:
        code, error = "failed", str(e)
    except Exception as e:
        # The server runs the job again when its backoff has passed, until its attempts are used up.
        code, error = "error", f"{type(e).__name__}: {e}"
    error = error.encode(errors="replace")[:ERROR_BYTES].decode(errors="ignore")
    return encode({"job_id": job_id, "code": code, "error": error})


def patience():
    """Returns the give_up for requests about jobs that have just ended."""
    ended = time.monotonic()
    return lambda: Stop.overdue(ended) or time.monotonic() > ended + REPORT_SECONDS


def give_back(claim, job_ids, give_up):
    """Returns jobs to their queue as if they had never been claimed: another worker gets them now, not after the lease."""
    for job_id in job_ids:
        try:
            server.post(f"/jobs/{job_id}/release", {"how": "unget", "claim_id": claim.id, "runner_id": RUNNER},
                        give_up=give_up)
        except server.Refused:
            pass  # the claim no longer holds the job, so there is nothing to give back


def requests(outcomes):
    """Divides outcomes into requests. In most cases one request is enough."""
    part, size = [], 0
    for outcome in outcomes:
        if part and size + len(outcome) > BODY_BYTES:
            yield part
            part, size = [], 0
        part.append(outcome)
        size += len(outcome)
    yield part


def report(claim, outcomes, give_up):
    """Reports outcomes in one request, and repeats it until it is answered, or give_up() is true.

    The repeat is safe: if the claim has ended a job with the same outcome, the server answers as it did the first time.
    """
    body = b'{"claim_id": %s, "runner_id": %s, "outcomes": [%s]}' % (encode(claim.id), encode(RUNNER), b", ".join(outcomes))
    try:
        answer = server.post("/jobs/complete", body, give_up=give_up)
    except server.Refused as e:
        # The server applied no part of the request. If one outcome is the reason, the other outcomes must still be reported.
        if len(outcomes) > 1:
            for outcome in outcomes:
                report(claim, [outcome], give_up)
        else:
            # The job runs again when its lease ends, until its attempts are used up.
            log(f"the report was refused: {e}: {outcomes[0][:200]}")
        return
    for result in answer["results"]:
        if result.get("code"):
            # claim_lost: the lease ended, and the job is pending or another worker has it. cancelled: somebody cancelled
            # it. In each case the outcome no longer applies, and the worker drops it.
            log(f"job {result['job_id']}: the outcome was refused: {result['code']}")


def work_on(claim, pool):
    tickler = threading.Thread(target=claim.keep, daemon=True)
    tickler.start()
    try:
        runs = {pool.submit(run, claim, job): job["job_id"] for job in claim.jobs}
        left = set(runs)
        while left:
            _, left = concurrent.futures.wait(left, timeout=0.1)
            if Stop.at is not None:  # finish the jobs that have begun, and give back the rest
                left = {r for r in left if not r.cancel()}
        results = {job_id: None if r.cancelled() else r.result() for r, job_id in runs.items()}
        outcomes = [outcome for outcome in results.values() if outcome]
        give_up = patience()
        if outcomes:
            for part in requests(outcomes):
                report(claim, part, give_up)
        give_back(claim, [job_id for job_id, o in results.items() if not o and job_id not in claim.gone], give_up)
    except server.Away as e:
        if Stop.at is not None:
            raise
        log(f"{e}; the jobs of this claim run again when their lease has ended")
    finally:  # also ends the tickles, so that another worker gets the jobs
        claim.done.set()
        tickler.join()


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    signal.signal(signal.SIGTERM, Stop.signal)
    signal.signal(signal.SIGINT, Stop.signal)
    request = {"runner_id": RUNNER, "types": [sys.argv[1]], "max": MAX, "lease_ms": LEASE_MS, "wait_ms": WAIT_MS}
    try:
        with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
            while Stop.at is None:
                # If the answer is lost, the repeat with the same key gets the jobs of the first try. Without the key, no
                # worker would have them until their lease ends. For the same reason the worker never aborts this request:
                # the server may have carried it out.
                asked_at = time.monotonic()
                answer = server.post("/jobs/claim", request, key=str(uuid.uuid4()), timeout=WAIT_MS / 1000 + 10,
                                     give_up=Stop.overdue)
                if answer and answer["jobs"]:
                    claim = Claim(answer, asked_at)
                    if time.monotonic() > asked_at + claim.lease / 3:
                        claim.tickle()  # the answer took long, so another worker may have the jobs by now
                    work_on(claim, pool)
    except server.Refused as e:
        sys.exit(f"the claim was refused: {e}")
    except server.Away as e:
        sys.exit(f"{e}; jobs that this worker held run again when their lease has ended")


main()
