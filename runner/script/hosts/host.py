# Runs handlers in Python. docs/reference/script-protocol.md describes the messages on descriptor 3.
import base64
import builtins
import io
import json
import linecache
import os
import signal
import sys
import traceback
from binascii import a2b_base64

CONNECTION = 3
MOST_PRINTS = 32 << 10  # characters that a job may print before they are sent
MOST_ERROR = 16 << 10

# What sources may use.


class Fail(Exception):
    """Ends a job for good. It may be raised or returned."""

    def __init__(self, text=""):
        super().__init__(text)
        self.text = str(text)

    def end(self):
        return {"code": "failed", "error": self.text[:MOST_ERROR]}


class Retry(Exception):
    """Runs a job again, after delay_ms or its backoff. It may be raised or returned."""

    def __init__(self, text="", delay_ms=None):
        super().__init__(text)
        self.text = str(text)
        self.delay_ms = delay_ms

    def end(self):
        end = {"code": "retry", "error": self.text[:MOST_ERROR]}
        if self.delay_ms is not None:
            end["delay_ms"] = max(0, round(self.delay_ms))
        return end


class Job:
    """What a handler can know of its job."""

    __slots__ = ("id", "client", "type", "kind", "attempt", "max_attempts", "meta", "traceparent", "payload")

    def __init__(self, fields, batch):
        self.id = fields["id"]
        self.client = batch["client"]
        self.type = batch["type"]
        self.kind = fields["kind"]
        self.attempt = fields["attempt"]
        self.max_attempts = fields["max_attempts"]
        self.meta = fields.get("meta") or {}
        self.traceparent = fields.get("traceparent")
        encoded = fields.get("payload_b64")
        self.payload = fields.get("payload") if encoded is None else a2b_base64(encoded)


# Prints.


class Prints(io.TextIOBase):
    encoding = "utf-8"
    parts = []
    size = 0

    def writable(self):
        return True

    def write(self, text):
        self.parts.append(text)
        self.size += len(text)
        while self.size > MOST_PRINTS:
            text_so_far = self.take()
            send({"prints": text_so_far[:MOST_PRINTS]})
            self.parts.append(text_so_far[MOST_PRINTS:])
            self.size = len(self.parts[0])
        return len(text)

    def take(self):
        text = "".join(self.parts)
        self.parts.clear()
        self.size = 0
        return text


# Messages.

encode = json.JSONEncoder(allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode
quote = json.encoder.encode_basestring_ascii
decode_text = json.JSONDecoder().raw_decode


def decode(line):
    return decode_text(line.decode())[0]


def send(message):
    send_text(encode(message) + "\n")


def send_text(text):
    # At once, so that an answer is not lost when the next job ends the process.
    data = text.encode(errors="surrogatepass")
    n = os.write(CONNECTION, data)
    while n < len(data):
        n += os.write(CONNECTION, data[n:])


# Handlers.

handlers = {}  # by number
befores = set()  # that were run

# What before defines is seen by all sources, as builtins are. What a source defines is its own.
shared = dict(vars(builtins), __builtins__=builtins, __name__="before", Fail=Fail, Retry=Retry)


def execute(source, name, scope):
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)  # for the lines in stacks
    exec(compile(source, name, "exec"), scope)
    return scope


def function_of(source, name, file, arguments):
    found = execute(source, file, {"__builtins__": shared, "__name__": "handler"}).get(name)
    if not callable(found):
        raise TypeError(f"the source defines no function {name}({arguments})")
    return found


def load(m):
    try:
        before = m.get("before")
        if before and before not in befores:
            befores.add(before)
            execute(before, "before.py", shared)
        hook = lambda name: function_of(m[name], name, name + ".py", "jobs") if m.get(name) else None
        handlers[m["load"]] = (function_of(m["source"], "handle", "handler.py", "payload, job"), hook("before_each"), hook("after_each"))
        send({"loaded": m["load"]})
    except Exception as error:
        send({"loaded": m["load"], "error": describe(error)})


# Batches.


def run(batch):
    handle, before_each, after_each = handlers[batch["handler"]]
    count = batch["batch"]
    jobs = None
    if before_each or after_each:
        jobs = [Job(decode(connection.readline()), batch) for _ in range(count)]
    if before_each:
        try:
            before_each(jobs)
        except Exception as error:
            send({"begun": True, "error": describe(error)})
            return
        send_text('{"begun":true}\n')
    for i in range(count):
        line = None if jobs else connection.readline()
        try:
            job = jobs[i] if jobs else Job(decode(line), batch)
            answer = answer_of(handle(job.payload, job))
        except (Fail, Retry) as end:
            answer = encode(end.end())[1:-1]
        except Exception as error:
            answer = '"code":"error","error":' + quote(describe(error))
        except BaseException:  # SystemExit: the job ends the process
            send({"exits": True, "prints": prints.take()})
            raise
        stop_timers()
        prints_field = ',"prints":' + quote(prints.take()) if prints.size else ""
        done = '{"done":true}\n' if i == count - 1 and not after_each else ""
        send_text(f'{{"job":{i},{answer}{prints_field}}}\n{done}')
    if after_each:
        try:
            after_each(jobs)
            done = {"done": True}
        except Exception as error:
            done = {"done": True, "error": describe(error)}
        if prints.size:
            done["prints"] = prints.take()
        send(done)


# The timers whose signals a job may have left behind. They would hit the next job.
TIMERS = [getattr(signal, name) for name in ("ITIMER_REAL", "ITIMER_VIRTUAL", "ITIMER_PROF") if hasattr(signal, name)]


def stop_timers():
    for timer in TIMERS:
        signal.setitimer(timer, 0)


def answer_of(value):
    if type(value) is str:
        return '"code":"ok","output":' + quote(value)
    if value is None:
        return '"code":"ok"'
    if isinstance(value, (Fail, Retry)):
        return encode(value.end())[1:-1]
    if isinstance(value, (bytes, bytearray, memoryview)):
        return '"code":"ok","output_b64":"' + base64.b64encode(value).decode() + '"'
    return '"code":"ok","output":' + encode(value)


def describe(error):
    """Returns the text of an error and the part of its stack that is of the handler."""
    stack = traceback.TracebackException.from_exception(error, limit=None, compact=True)
    stack.stack = traceback.StackSummary.from_list([frame for frame in stack.stack if frame.filename != __file__][-10:])
    try:
        text = "".join(stack.format(chain=False))
    except Exception:
        text = type(error).__name__
    return text.rstrip("\n")[:MOST_ERROR]


prints = sys.stdout = Prints()
os.set_inheritable(CONNECTION, False)
connection = open(CONNECTION, "rb", buffering=1 << 16, closefd=False)
try:
    while line := connection.readline():
        message = decode(line)
        if "load" in message:
            load(message)
        else:
            run(message)
except BrokenPipeError:
    pass  # the runner is gone
finally:
    if prints.size:
        try:
            send({"prints": prints.take()})
        except OSError:
            pass
