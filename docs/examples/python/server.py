"""Sends requests to a Daybook server, and repeats them while it is unreachable. Needs only the standard library."""

import http.client
import json
import os
import random
import sys
import time
import urllib.error
import urllib.request

URL = os.environ.get("DAYBOOK_SERVER", "http://127.0.0.1:1717").rstrip("/")

# After these statuses the same request may succeed later: the server is busy, starts or stops, or a proxy cannot reach it.
# After 500, 507 and some codes of 429 somebody must act first, for example make room on the disk. So if other workers wait for
# the jobs, the repeats need a bound: the caller's give_up. After any other refusal this program does not repeat the request.
TEMPORARY = {408, 429, 500, 502, 503, 504, 507}


class Refused(Exception):
    """The server refused the request. docs/reference/errors.md lists the codes, which never change between versions."""

    def __init__(self, status, document):
        super().__init__(f"{status} {document.get('code')}: {document.get('detail')}")
        self.status, self.code, self.document = status, document.get("code"), document


class Away(Exception):
    """The request got no answer in time. The server may have carried it out."""


def post(path, body, content_type="application/json", key=None, timeout=30.0, give_up=lambda: False):
    """Posts body (bytes, or an object for JSON) and returns the document of the answer, or None if there is none.

    A request is repeated until give_up() is true. An answer can be lost after the server has carried out the request. So
    the caller must make sure that a repeat does nothing twice: by an idempotency key, or because the request names the claim
    that it ends.
    """
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"Content-Type": content_type}
    if key is not None:
        headers["Idempotency-Key"] = key
    wait = 0.1
    while True:
        pause = 0.0
        try:
            request = urllib.request.Request(URL + path, data, headers, method="POST")
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                text = answer.read()  # raises IncompleteRead if the connection breaks before the end
                return json.loads(text) if text else None
        except urllib.error.HTTPError as e:
            try:
                document = json.loads(e.read())
            except (ValueError, OSError, http.client.HTTPException):
                document = {"detail": "the answer is not one of Daybook; a proxy may have sent it"}
            if e.code not in TEMPORARY:
                raise Refused(e.code, document) from None
            reason = f"{e.code} {document.get('code')}"
            retry_after = e.headers.get("Retry-After", "")
            pause = float(retry_after) if retry_after.isdigit() else 0.0
        except (OSError, http.client.HTTPException, ValueError) as e:
            reason = str(e) or type(e).__name__
        if give_up():
            raise Away(f"POST {path}: {reason}")
        log(f"POST {path}: {reason}; trying again")
        # Without the random part, all programs that lost the server would reconnect at the same moment.
        time.sleep(max(pause, wait * random.uniform(0.5, 1)))
        wait = min(2 * wait, 2.0)


def log(text):
    print(text, file=sys.stderr, flush=True)
