"""Channels of an app's own, over the web client."""

import pytest

from hub import APP_KEY, APP_SECRET
from web import Browser

#: What an app's backend signs, and a device that has it signed.
AUTHORIZE = """
    const [key, secret] = given;
    const bytes = (text) => new TextEncoder().encode(text);
    const code = await crypto.subtle.importKey('raw', bytes(secret), { name: 'HMAC', hash: 'SHA-256' }, false, ['sign']);
    globalThis.sockets = new Set();
    globalThis.heard = [];
    globalThis.authorize = async (channel, socketId) => {
        sockets.add(socketId);
        if (channel.includes('forbidden')) throw new Error('not yours');
        const channel_data = channel.startsWith('presence-') ? '{"user_id":"ana"}' : undefined;
        const text = [socketId, channel, ...(channel_data ? [channel_data] : [])].join(':');
        const digest = new Uint8Array(await crypto.subtle.sign('HMAC', code, bytes(text)));
        const signature = [...digest].map((byte) => byte.toString(16).padStart(2, '0')).join('');
        return { auth: `${key}:${signature}`, channel_data };
    };
    globalThis.other = new Carillon({ ...client.options, user: client.user, device: 'signed', authorize });
    globalThis.hear = (channel) => other.subscribe(channel, (event, data) => heard.push([channel, event, data]));
    await other.start();"""


@pytest.fixture(scope="module")
def browser():
    with Browser() as running:
        yield running


def heard(tab, channel):
    return [one[1] for one in tab.run("return heard") if one[0] == channel]


@pytest.mark.parametrize("channel", ["private-room", "presence-room"])
def test_a_signed_channel_is_heard(browser, hub, user, channel):
    with browser.device(hub, user) as phone:
        tab = phone.tab().settles()
        tab.run(AUTHORIZE, [APP_KEY, APP_SECRET])
        tab.run("hear(given)", channel)
        tab.becomes(lambda: "pusher:subscription_succeeded" in heard(tab, channel), "the channel is joined")
        # On each connection anew, and not where nobody wants it any more.
        tab.run("hear(given)(); heard.length = 0", "private-left")
        phone.offline()
        tab.becomes(lambda: tab.run("return other.connection.value") != "connected", "it knows that it is offline")
        phone.online()
        tab.becomes(lambda: "pusher:subscription_succeeded" in heard(tab, channel), "the channel is joined again")
        assert tab.run("return sockets.size") == 2 and heard(tab, "private-left") == []
        tab.run("await other.close()")


def test_a_refusal_is_told(browser, hub, user):
    with browser.device(hub, user) as phone:
        tab = phone.tab().settles()
        tab.run(AUTHORIZE, [APP_KEY, APP_SECRET])
        tab.run("hear('private-forbidden')")
        tab.becomes(lambda: heard(tab, "private-forbidden") == ["pusher:subscription_error"], "the refusal is told")
        assert tab.run("return heard[0][2]") == {"type": "AuthError", "error": "not yours"}
        # Without a signature the hub refuses.
        tab.run("client.subscribe('private-plain', (event) => heard.push(['private-plain', event]))")
        tab.becomes(lambda: heard(tab, "private-plain") == ["pusher:subscription_error"], "the hub's refusal is told")
        tab.run("await other.close()")


def test_a_hub_in_the_clear_is_refused(browser, hub, user):
    with browser.device(hub, user) as phone:
        tab = phone.tab()
        made = """
            try {
                new Carillon({ ...client.options, user: client.user, hub: given });
                return null;
            } catch (error) {
                return error.code;
            }"""
        for address, code in [
            ("http://hub.example.com", "insecure"), ("ws://127.0.0.1:6001", "insecure"),
            ("http://127.0.0.1.example.com", "insecure"), ("https://hub.example.com", None),
            ("http://localhost:6001", None), ("http://[::1]:6001", None),
        ]:
            assert tab.run(made, address) == code, address
