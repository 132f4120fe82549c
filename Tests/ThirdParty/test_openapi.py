"""`/openapi.json` is true: a validator reads it, and schemathesis finds nothing that answers otherwise than it says."""

import http.client
import json
import subprocess
import sys

import openapi_spec_validator

from actions import add_dose
from hub import ORIGIN, Hub
from test_queries import Reader
from waiting import PATIENCE

#: Seconds for all of schemathesis; it takes about 40, and twice as long beside other work.
LIMIT = 600

#: What no schema says. Texts have no NUL. TRACE gets 501, as RFC 9110 has it for methods that a server does not know.
#: 422: the body is well-formed, and the database refuses the action. 400 of a dose, of statistics and of history: the
#: cursor is not one, or the range of days is reversed or too long. 503 with Retry-After: a number that is not the
#: device's next, or an export while the one before is being closed.
SETTINGS = """
seed = 18
[generation]
database = "none"
max-examples = 20
allow-x00 = false
[phases.coverage]
unexpected-methods = ["get", "put", "post", "patch", "delete", "options"]
[parameters]
"path.userId" = "{user}"
[checks]
positive_data_acceptance.expected-statuses = ["2xx", "3xx", "404", "409", "422", "429"]

[[operations]]
include-path-regex = "/adherence/occurrence/"
parameters = {{ "path.id" = "{dose}" }}
checks.positive_data_acceptance.expected-statuses = ["2xx", "3xx", "400", "404", "409", "422", "429"]

[[operations]]
include-path-regex = "/adherence/(stats|history)$"
checks.positive_data_acceptance.expected-statuses = ["2xx", "3xx", "400"]

[[operations]]
include-path-regex = "/adherence/(actions|bulk|export)$"
checks.not_a_server_error.expected-statuses = ["2xx", "4xx", "503"]
checks.positive_data_acceptance.expected-statuses = ["2xx", "400", "409", "422", "429", "503"]

# It does not end. test_sse.py reads it.
[[operations]]
include-path = "/users/{{userId}}/events"
enabled = false

# Signed by the app: the caller has a user's token alone.
[[operations]]
include-path = "/webhooks/notify"
checks.positive_data_acceptance.expected-statuses = ["401"]
"""


def fetch(hub, method="GET", **fields):
    connection = http.client.HTTPConnection("127.0.0.1", hub.port, timeout=PATIENCE)
    connection.request(method, "/openapi.json", headers=fields)
    answer = connection.getresponse()
    answer.text = answer.read().decode()
    connection.close()
    return answer


def test_the_document_is_valid(hub):
    answer = fetch(hub, Origin=ORIGIN)
    assert answer.status == 200 and answer.getheader("Content-Type") == "application/json"
    document = json.loads(answer.text)
    assert document["openapi"] == "3.1.0"
    openapi_spec_validator.validate(document)
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert operation["summary"] and operation["tags"], f"{method} {path}"
            assert {"401", "403", "503"} <= operation["responses"].keys()
    operations = [one["operationId"] for path in document["paths"].values() for one in path.values()]
    assert len(set(operations)) == len(operations)


def test_the_document_is_asked_for_again(hub):
    tag = fetch(hub).getheader("ETag")
    assert fetch(hub, **{"If-None-Match": tag}).status == 304
    head = fetch(hub, "HEAD")
    assert (head.status, head.text, head.getheader("ETag")) == (200, "", tag)
    wrong = fetch(hub, "POST")
    assert wrong.status == 405 and wrong.getheader("Allow") == "GET, HEAD, OPTIONS"


def test_schemathesis_finds_nothing(tmp_path):
    with Hub("--limits-actions-per-second", "10000") as hub:
        hub.wait_until_listening()
        reader = Reader(hub, "schema")
        dose = add_dose(hub, "schema")
        reader.json("today")
        (tmp_path / "schemathesis.toml").write_text(SETTINGS.format(user="schema", dose=dose))
        run = subprocess.run(
            [sys.executable, "-m", "schemathesis.cli", "--config-file", "schemathesis.toml", "run",
             f"http://127.0.0.1:{hub.port}/openapi.json", "--header", f"Authorization: Bearer {reader.token}",
             "--no-color"],
            cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT)
        # The bodies that it reports may be long.
        assert run.returncode == 0, "\n".join(line[:400] for line in (run.stdout + run.stderr).splitlines())
        assert reader.json("today")["occurrences"]
