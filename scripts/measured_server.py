"""A server that a script starts, and a connection to it. The scripts measure-large, measure-pages and take-pictures import this module."""
import contextlib
import http.client
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.parse
import uuid

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BATCH = 1000


class Client:
    """A connection to the server."""

    def __init__(self, address, instance="measure"):
        self.address = address
        self.instance = instance
        self.reconnect()

    def reconnect(self):
        host, port = self.address.split(":")
        self.connection = http.client.HTTPConnection(host, int(port), timeout=300)

    def send(self, method, path, body, headers):
        """Sends a request. Returns the response when its head has arrived."""
        self.connection.request(method, path, body, headers)
        return self.connection.getresponse()

    def request(self, method, path, body=None):
        text = None if body is None else json.dumps(body)
        response = self.send(method, path, text, {"Content-Type": "application/json"})
        answer = response.read()
        if response.status >= 400:
            sys.exit(f"{method} {path}: {response.status} {answer[:300]!r}")
        return answer

    def first_byte(self, path):
        """Loads a page. Returns the time to the first byte in milliseconds, and the size of the page."""
        begun = time.perf_counter()
        response = self.send("GET", path, None, {"Accept": "text/html"})
        elapsed = (time.perf_counter() - begun) * 1000
        page = response.read()
        if response.status != 200:
            sys.exit(f"GET {path}: {response.status} {page[:300]!r}")
        return elapsed, len(page)

    def json(self, method, path, body=None):
        return json.loads(self.request(method, path, body))

    def submit(self, drafts):
        for begin in range(0, len(drafts), BATCH):
            answer = self.json("POST", "/v1/executions/batch", {"executions": drafts[begin : begin + BATCH]})
            refuse_errors("a submission", answer["results"])

    def claim(self, lanes, most=1, **fields):
        lanes = [lanes] if isinstance(lanes, str) else lanes
        body = {"worker": "measure", "lanes": lanes, "max": most, "lease_ttl_ms": 3_600_000} | fields
        return self.json("POST", f"/v1/workers/{self.instance}/claim", body)["claims"]

    def report(self, claims, op, **fields):
        """Reports the same operation on several executions."""
        self.report_each([(claim, op, fields) for claim in claims])

    def report_each(self, ops):
        """Reports operations, given as claim, name and fields."""
        ops = [
            {"op": op, "execution": claim["execution"]["id"], "attempt": claim["attempt"]}
            | {"lease_id": claim["lease"]["id"], "epoch": claim["lease"]["epoch"]}
            | fields
            for claim, op, fields in ops
        ]
        refuse_errors("an operation", self.json("POST", f"/v1/workers/{self.instance}/report", {"ops": ops})["results"])


def refuse_errors(subject, results):
    for result in results:
        if "error" in result:
            sys.exit(f"{subject} was refused: {result['error']}")


def psql(url, text):
    command = ["psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", url, "-c", text]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def release_binary(named):
    """Returns the binary that the command line names. Without one, builds the release."""
    if named is None:
        subprocess.run(["cargo", "build", "--release", "--locked", "-p", "selvedge-cli"], cwd=ROOT, check=True)
    return named or f"{ROOT}/target/release/selvedge"


@contextlib.contextmanager
def new_database():
    """Creates a database on the server in SELVEDGE_TEST_POSTGRES, and drops it at the end."""
    base = os.environ["SELVEDGE_TEST_POSTGRES"]
    database = f"selvedge_measured_{uuid.uuid4().hex[:12]}"
    psql(base, f"create database {database}")
    try:
        yield urllib.parse.urlsplit(base)._replace(path=f"/{database}").geturl()
    finally:
        psql(base, f"drop database if exists {database} with (force)")


@contextlib.contextmanager
def serving(binary, store, *flags, command="serve"):
    """Runs a server on a store and returns its address. Its log is discarded, unless it fails to start."""
    with tempfile.TemporaryFile("w+") as log:
        arguments = [binary, command, "--store", store, "--listen", "127.0.0.1:0", *flags]
        # The server ends with this script, also if the script is killed.
        server = subprocess.Popen(["setpriv", "--pdeathsig", "TERM", *arguments], stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            lines = (re.search(r"http://([0-9.:]+)", line) for line in server.stdout)
            address = next((found for found in lines if found), None)
            if address is None:
                log.seek(0)
                sys.exit(log.read())
            yield address.group(1)
        finally:
            server.terminate()
            server.wait()
