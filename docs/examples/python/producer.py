"""Posts each line of standard input as a job: python3 producer.py TYPE KEY < lines.txt

KEY names this input. If the producer is killed, or its machine stops, run it again with the same input and the same KEY:
lines that the server has already stored are not stored twice. The server remembers a key for 24 hours.
"""

import sys
import time
import urllib.parse

import server

# One request creates the jobs of one body, all or none. A body may have 8 MiB; with 1 MiB, less must be sent again
# after a failure.
BODY_BYTES = 1 << 20
# How long the server may be unreachable before the producer gives up.
PATIENCE_SECONDS = 600


def bodies(lines):
    """Splits the lines into bodies. The same input always gives the same bodies, since each body has its own key."""
    body = []
    size = 0
    for line in lines:
        line = line.rstrip(b"\n") + b"\n"
        if body and size + len(line) > BODY_BYTES:
            yield b"".join(body)
            body, size = [], 0
        body.append(line)
        size += len(line)
    if body:
        yield b"".join(body)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    job_type, key = sys.argv[1:]
    path = "/add?" + urllib.parse.urlencode({"jobtype": job_type})
    created = 0
    for n, body in enumerate(bodies(sys.stdin.buffer)):
        deadline = time.monotonic() + PATIENCE_SECONDS
        try:
            # With the key, a repeat of a body whose answer was lost returns the first answer.
            batch = server.post(path, body, "text/plain", key=f"{key}-{n}", give_up=lambda: time.monotonic() > deadline)
        except server.Refused as e:
            # key_reused: the key belongs to another input. Any other refusal here is an error of this program.
            sys.exit(f"body {n} was refused: {e}")
        except server.Away as e:
            sys.exit(f"body {n}: {e}; run this command again with the same input and key")
        created += batch["count"]
    print(created)


main()
