"""The web client with a fault put in: the judges see each of them."""

import pytest

import waiting
from test_web_client import behind_a_lock, keeps_and_waits, takes_twice
from test_web_tabs import dies_at, dies_with_an_event, freeze_and_thaw
from web import Browser

NEW_KEY = """
        if (row.n !== null) {
            await work.put('actions', next[index] = { ...row, key: crypto.randomUUID() });
            continue;
        }"""

#: By name: which judge sees it, and what is changed: the file, what is there, what takes its place.
MUTANTS = {
    "a key made anew on retry": ("lock", [(
        "queue.js", "        if (row.n !== null) continue;",
        NEW_KEY)]),
    "a key made anew after a restart": ("restart", [(
        "queue.js", "        if (row.n !== null) continue;",
        NEW_KEY)]),
    "an overlay that is dropped on an error": ("lock", [(
        "overlay.js", "if (row.state === 'queued' || row.state === 'sent') return true;",
        "if ((row.state === 'queued' || row.state === 'sent') && !row.retries) return true;")]),
    "a position that is stored before its event": ("event", [(
        "streams.js", "        const batch = this.inbox.splice(0, BATCH);", """
        const batch = this.inbox.splice(0, BATCH);
        await this.host.store.write(async (work) => {
          const position = await work.get('positions', this.name);
          await work.put('positions', { ...position, offset: batch.at(-1)[1]._sync.o });
        }, { fence: this.host.fence });"""),
        ("streams.js", "        if (o <= offset) continue;\n        if (o !== offset + 1) return 'gap';\n", "")]),
    "two tabs that drain at once": ("freeze", [(
        "store.js",
        "        if (fence !== null && lease?.fence !== fence) throw new FenceLost();\n",
        "")]),
    "a decided conflict that is forgotten before its event": ("keeps", [(
        "queue.js", "await decided(work, stored.payload.of);", "await release(work, stored.payload.of);")]),
    "a revision of its own that is taken for another's": ("twice", [(
        "overlay.js", "base: baseOf(row, account, before),", "base: row.base,")]),
}


@pytest.fixture(scope="module")
def browser():
    with Browser() as running:
        yield running


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_seen(browser, hub, user, name, monkeypatch):
    judge, changes = MUTANTS[name]
    variant = name.replace(" ", "-")
    browser.site.variants[variant] = changes
    with pytest.raises(AssertionError):
        # A mutant fails by never coming to an end: less patience than elsewhere can only fail it sooner.
        monkeypatch.setattr(waiting, "PATIENCE", 15 if judge == "freeze" else 5)
        if judge == "lock":
            behind_a_lock(browser, hub, user, variant)
        elif judge == "event":
            # The page may die after both: it is asked more than once.
            for attempt in range(5):
                dies_with_an_event(browser, hub, f"{user}.{attempt}", variant)
        elif judge == "keeps":
            keeps_and_waits(browser, hub, user, variant)
        elif judge == "twice":
            takes_twice(browser, hub, user, variant)
        elif judge == "freeze":
            freeze_and_thaw(browser, hub, user, variant)
        else:
            step = 4
            while dies_at(browser, hub, f"{user}.{step}", variant, step):
                step += 1
