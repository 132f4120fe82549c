"""The web client's rules, held to the histories of Tests/Vectors in Chromium itself."""

import pytest

from web import Browser

MODULES = ["account.js", "doserules.js", "reminderbook.js", "times.js"]


@pytest.fixture(scope="module")
def browser():
    with Browser() as running:
        yield running


@pytest.mark.parametrize("kind", ["doses", "reminders"])
def test_rules_are_those_of_the_hub(browser, kind):
    page = browser.chromium.new_page()
    page.goto(f"{browser.site.address}/client/page.html")
    found = page.evaluate("""async ([kind, files]) => {
        const modules = Object.assign({}, ...await Promise.all(files.map((file) => import(`./${file}`))));
        const { judge } = await import('./vectors.js');
        const vectors = await (await fetch(`./${kind}.json`)).json();
        const steps = vectors.histories.reduce((sum, one) => sum + one.steps.length, 0);
        return { steps, differences: judge(vectors, modules) };
    }""", [kind, MODULES])
    page.close()
    assert found["steps"] > 500 and found["differences"] == []
