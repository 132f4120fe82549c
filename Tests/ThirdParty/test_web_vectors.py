"""The web client's rules, held to the histories of Tests/Vectors in Chromium itself."""

import uuid

import pytest

from web import Browser

MODULES = ["account.js", "doserules.js", "reminderbook.js", "schedules.js", "times.js"]


@pytest.fixture(scope="module")
def browser():
    with Browser() as running:
        yield running


@pytest.mark.parametrize("kind", ["doses", "reminders", "schedules"])
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


def test_times_that_stay_keep_their_schedules(browser):
    page = browser.chromium.new_page()
    page.goto(f"{browser.site.address}/client/page.html")
    found = page.evaluate("""async () => {
        const { begun, changed } = await import('./schedules.js');
        const at = Date.UTC(2025, 10, 17, 7) * 1000;
        const medication = { id: 'm1', frequency: 'twice_daily', schedules: [{ id: 's1', time: '08:00', repeat: 'daily' },
            { id: 's2', time: '20:00', repeat: 'daily' }] };
        const told = (all) => all.map(({ id, time, repeat, repeatOn }) => [id, time, repeat, repeatOn]);
        return [told(changed({ id: 'm1', times: ['23:00', '20:00'] }, medication, 'UTC', at)),
            ...['weekly', 'twice_daily'].map((frequency) => told(begun({ id: 'm1', frequency }, 'UTC', at)))];
    }""")
    page.close()
    space = uuid.uuid5(uuid.UUID("8a9e3b52-6a43-5d0c-9f4e-1c7f5be0ca21"), "m1")
    first, second = (str(uuid.uuid5(space, f"schedule/{n}")) for n in (1, 2))
    assert found == [[["s2", "20:00", "daily", None], [first, "23:00", "daily", None]], [[first, "08:00", "custom", [1]]],
                     [[first, "08:00", "daily", None], [second, "20:00", "daily", None]]]
