"""JSON Web Tokens made by hand (RFC 7515, RFC 7519), good ones and bad ones."""

import base64
import hashlib
import hmac
import json
import time


def _encoded(value):
    raw = value if isinstance(value, bytes) else json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def claims(user, lifetime=3600, **more):
    """Claims of a user; a claim given as None is left out."""
    now = int(time.time())
    all_of_them = {"sub": user, "iat": now, "exp": now + lifetime, **more}
    return {name: value for name, value in all_of_them.items() if value is not None}


def signed(header, payload, key):
    text = f"{_encoded(header)}.{_encoded(payload)}"
    signature = hmac.new(key.encode(), text.encode(), hashlib.sha256).digest()
    return f"{text}.{_encoded(signature)}"


def hs256(secret, payload):
    return signed({"alg": "HS256", "typ": "JWT"}, payload, secret)


def bad_ones(secret, user):
    """Tokens of that user that no hub may accept, by name."""
    good = hs256(secret, claims(user))
    head, payload, signature = good.split(".")
    unsigned = _encoded({"alg": "none", "typ": "JWT"})
    other = _encoded(claims("somebody-else"))
    return {
        "expired": hs256(secret, claims(user, lifetime=-3600)),
        "not yet valid": hs256(secret, claims(user, nbf=int(time.time()) + 3600)),
        "another key": hs256("0" * 64, claims(user)),
        "alg none": f"{unsigned}.{payload}.",
        "alg none with a signature": f"{unsigned}.{payload}.{signature}",
        "alg None": _encoded({"alg": "None"}) + f".{payload}.",
        "alg HS384": signed({"alg": "HS384", "typ": "JWT"}, claims(user), secret),
        "alg RS256": signed({"alg": "RS256", "typ": "JWT"}, claims(user), secret),
        "another key by its id": signed({"alg": "HS256", "kid": "../../dev/null"}, claims(user), ""),
        "payload exchanged": f"{head}.{other}.{signature}",
        "signature cut": good[:-4],
        "no signature": f"{head}.{payload}.",
        "two parts": f"{head}.{payload}",
        "four parts": good + ".x",
        "no expiry": hs256(secret, claims(user, exp=None)),
        "no subject": hs256(secret, claims(None)),
        "empty subject": hs256(secret, claims("")),
        "subject not a text": hs256(secret, claims(7)),
        "endless expiry": hs256(secret, claims(user, exp=1e300)),
        "not JSON": f"{_encoded(b'x')}.{_encoded(b'y')}.{signature}",
        "not Base64": "!!!.???.***",
        "garbage": "garbage",
        "too long": hs256(secret, claims(user, pad="x" * 9000)),
    }
