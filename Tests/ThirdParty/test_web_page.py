"""The code of the web client's page, pasted as it stands, with the modules that the hub itself serves."""

import re

import pytest

from actions import add_dose
from test_pages import ROOT, code
from waiting import eventually
from web import Browser

PAGE = ROOT / "Sources/Clients/Web/README.md"

#: What the page's code finds in an app, and what the test asks of it.
SHELL = """<!doctype html><pre id="today"></pre><script type="module">
{script}
globalThis.carillon = carillon;
globalThis.take = take;
</script>"""

LIBRARIES = """
import { Carillon } from 'MODULE';
const carillon = globalThis.carillon;
const data = new Map(), actions = [];
const queryClient = { setQueryData: (key, value) => data.set(key.join('/'), value) };
const store = { dispatch: (action) => actions.push(action) };
%s
const ends = [bindQueries(queryClient, carillon, 'ana'), bindStore(store, carillon)];
globalThis.bound = { data, actions, ends, first: await todayQuery(carillon, 'ana').queryFn() };
const note = { occurrenceId: 'DOSE', text: 'by a hook' };
await adherenceMutation(carillon).mutationFn({ actionType: 'addNote', payload: note });
"""


@pytest.fixture(scope="module")
def browser():
    with Browser() as running:
        yield running


def test_the_pages_code_takes_a_dose(browser, hub, user):
    dose = add_dose(hub, user)
    address = f"http://127.0.0.1:{hub.port}"
    script = "\n".join(code(PAGE, "## Start", "js") + code(PAGE, "## Show", "js") + code(PAGE, "## Act", "js"))
    assert "'./carillon.js'" in script and "'TOKEN'" in script and "user: 'demo'" in script
    script = (script.replace("./carillon.js", f"{address}/client/carillon.js").replace("http://127.0.0.1:6001", address)
              .replace("TOKEN", hub.token(user)).replace("user: 'demo'", f"user: '{user}'"))
    browser.site.pages["app.html"] = SHELL.format(script=script)
    context = browser.chromium.new_context()
    page = context.new_page()
    page.goto(f"{browser.site.address}/client/app.html")
    eventually(lambda: "scheduled" in page.inner_text("#today"), "the page shows the dose")
    page.evaluate("() => take(carillon.today().value.occurrences[0])")
    eventually(lambda: "taken" in page.inner_text("#today"), "the page shows that it is taken")
    eventually(
        lambda: hub.query("select status from care.dose_occurrence where id = %s", [dose]) == [("taken",)], "the hub too")
    hooks = "\n".join(code(PAGE, "## react-query and redux", "js"))
    module = (LIBRARIES % re.sub(r"^export ", "", hooks, flags=re.M)).replace("DOSE", dose)
    page.add_script_tag(content=module.replace("MODULE", f"{address}/client/carillon.js"), type="module")
    note = "() => globalThis.bound?.data.get('adherence/today/ana')?.occurrences[0].note"
    eventually(lambda: page.evaluate(note) == "by a hook", "the queries' data is set")
    assert page.evaluate("() => bound.actions.length > 1 && bound.actions[0].type") == "sync/changed"
    context.close()
