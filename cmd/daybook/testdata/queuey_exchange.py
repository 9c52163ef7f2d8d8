"""The exchange of queuey-queue's README, by a program that knows nothing of Daybook.

usage: queuey_exchange.py SUBMITTER|RUNNER GUEST

It finds the queue by multicast DNS. As SUBMITTER it stores GUEST and an input, creates a job and waits for its output.
As RUNNER it also claims the job, and reports the output that GUEST would have.
"""
import hashlib, json, sys, threading, time, urllib.error, urllib.request, uuid
from zeroconf import ServiceBrowser, ServiceListener, Zeroconf

role, guest = sys.argv[1], open(sys.argv[2], "rb").read()


class Listener(ServiceListener):
    found, url = threading.Event(), None

    def add_service(self, z, kind, name):
        info = z.get_service_info(kind, name, 10000)
        if info:
            Listener.url = f"http://{info.parsed_addresses()[0]}:{info.port}"
            Listener.found.set()

    def update_service(self, z, kind, name): pass
    def remove_service(self, z, kind, name): pass


z = Zeroconf()
browser = ServiceBrowser(z, "_serval_queue._tcp.local.", Listener())
assert Listener.found.wait(60), "no queue was found"
z.close()


def ask(method, path, body=None, kind="application/json"):
    request = urllib.request.Request(Listener.url + path, body, {"Content-Type": kind}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as e:
        return e.code, e.read()


def store(content):
    status, address = ask("PUT", "/blob", content, "application/octet-stream")
    assert status in (200, 201) and address.decode() == hashlib.sha256(content).hexdigest(), (status, address)
    return hashlib.sha1(content).hexdigest()  # the form of the README


content = f"the input for {role}".encode()
work = {"binary_addr": store(guest), "input_addr": store(content)}
status, text = ask("POST", "/jobs/create", json.dumps(work).encode())
assert status < 300, (status, text)
id = json.loads(text)["job_id"]

if role == "RUNNER":
    runner = str(uuid.uuid4())
    claim = json.dumps({"runner_id": runner}).encode()
    while (answer := ask("POST", "/jobs/claim", claim))[0] == 204:
        time.sleep(0.05)
    status, text = answer
    job = json.loads(text)
    assert status == 200 and job["job_id"] == id and job["status"].lower() == "active" and job["runner_id"] == runner, (status, job)
    for name, want in ("binary_addr", guest), ("input_addr", content):
        status, got = ask("GET", "/blob/" + job[name])
        assert status == 200 and got == want, (name, status, len(got))
    status, text = ask("POST", f"/jobs/{id}/tickle", b"")
    assert status == 200, (status, text)
    output = ask("PUT", "/blob", content.upper(), "application/octet-stream")[1].decode()
    report = json.dumps({"status": "Completed", "output_addr": output}).encode()
    status, text = ask("POST", f"/jobs/{id}/complete", report)
    assert status == 200, (status, text)
    status, text = ask("POST", f"/jobs/{id}/complete", report.replace(b"Completed", b"Failed"))
    assert 400 <= status < 500, (status, text)

end = time.time() + 60
while (job := json.loads(ask("GET", f"/jobs/{id}")[1]))["status"].lower() in ("pending", "active"):
    assert time.time() < end, job
    time.sleep(0.05)
output = ask("GET", "/blob/" + job["output_addr"])[1]
print(json.dumps({"status": job["status"].lower(), "output": output.decode(), "runner_id": job["runner_id"]}))
