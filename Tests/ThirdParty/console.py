"""A hub's console: its page in a browser, and its interface."""

import http.client
import json
from urllib.parse import urlencode, urlsplit

from waiting import PATIENCE


class Console:
    """The page in a browser of its own."""

    def __init__(self, browser, hub, **options):
        self.context = browser.chromium.new_context(**options)
        self.page = self.context.new_page()
        self.page.set_default_timeout(PATIENCE * 1000)
        self.errors, self.requests = [], []
        self.page.on("console", lambda message: message.type in ("error", "warning") and self.errors.append(message.text))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(f"{hub.operations}/console")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.context.close()

    def opens(self, name):
        self.page.get_by_role("tab", name=name).click()

    def fills(self, panel, label, text):
        self.page.locator(f"#{panel}").get_by_label(label, exact=True).fill(text)

    def row(self, panel, *texts):
        """The first row of the page's table that has all these texts."""
        rows = self.page.locator(f"#{panel} tbody tr")
        for text in texts:
            rows = rows.filter(has_text=text)
        rows.first.wait_for()
        return rows.first


def ask(hub, method, path, body=None, **headers):
    address = urlsplit(hub.operations)
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=PATIENCE)
    connection.putrequest(method, path, skip_host=True)
    for name, text in {"Host": address.netloc, "Content-Length": str(len(body or b"")), **headers}.items():
        connection.putheader(name, text)
    connection.endheaders(body)
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    return answer, text


def asked(hub, route, **parameters):
    answer, text = ask(hub, "GET", f"/console/api/{route}?{urlencode(parameters)}")
    assert answer.status == 200, text
    return json.loads(text)
