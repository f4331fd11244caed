"""A small JSON client. Every call makes its own connection, so a daemon may come and go between calls."""

import http.client
import json


class Reply:
    def __init__(self, response):
        self.status = response.status
        self.headers = response.headers
        self.body = response.read()

    @property
    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"{self.status} {self.body[:2000]!r}"


class Client:
    """Talks to one address. `expect` is the status, or the statuses, that the caller counts on: anything else fails."""

    def __init__(self, address, timeout_s=30):
        self.host, port = address.rsplit(":", 1)
        self.port = int(port)
        self.timeout_s = timeout_s

    def request(self, method, path, body=None, expect=None, headers=None, raw=None, timeout_s=None):
        """`body` is sent as JSON; `raw` as it is (text or bytes), for what is not JSON."""
        headers = dict(headers or {})
        if body is not None:
            raw = json.dumps(body)
        if raw is not None:
            raw = raw.encode() if isinstance(raw, str) else raw
            headers.setdefault("Content-Type", "application/json")
        connection = http.client.HTTPConnection(self.host, self.port, timeout=timeout_s or self.timeout_s)
        try:
            connection.request(method, path, raw, headers)
            reply = Reply(connection.getresponse())
        finally:
            connection.close()
        expected = (expect,) if isinstance(expect, int) else expect
        assert expected is None or reply.status in expected, f"{method} {path}: expected {expect}, got {reply}"
        return reply

    def get(self, path, expect=200, **options):
        return self.request("GET", path, expect=expect, **options)

    def put(self, path, body=None, expect=(200, 201), **options):
        return self.request("PUT", path, body, expect, **options)

    def post(self, path, body=None, expect=(200, 201, 202), **options):
        return self.request("POST", path, body, expect, **options)

    def delete(self, path, expect=(200, 202, 204), **options):
        return self.request("DELETE", path, expect=expect, **options)

    def problem(self, method, path, body=None, expect=None, **options):
        """A call that must be refused: checks that the answer is an RFC 9457 problem and returns it."""
        reply = self.request(method, path, body, expect, **options)
        assert 400 <= reply.status < 600, f"{method} {path}: expected a refusal, got {reply}"
        kind = reply.headers.get("Content-Type", "").split(";")[0]
        assert kind == "application/problem+json", f"{method} {path}: no problem body but {kind}: {reply}"
        problem = reply.json
        assert problem["status"] == reply.status and problem["title"] and problem["type"], problem
        return problem
