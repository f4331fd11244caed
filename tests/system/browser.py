"""The dashboard as a browser would run it: its script in QuickJS over the little document of browser.js."""

import html.parser
import json
import pathlib
import time

import quickjs

from http_client import Client

ROOT = pathlib.Path(__file__).resolve().parents[2]
WEB = ROOT / "coordinator" / "web"
JOBS_MAX = 100_000  # of QuickJS, until one reading has ended


class Skeleton(html.parser.HTMLParser):
    """(tag, attributes) of every element of a page."""

    def __init__(self, text):
        super().__init__()
        self.elements = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))


class Browser:
    """`fetch(path)` answers {status, body, date} or raises OSError; by default it asks a coordinator."""

    def __init__(self, address=None, fetch=None, hash=""):
        self.address = address
        self.paths = []
        self._fetch = fetch or self._ask
        self.context = quickjs.Context()
        self.context.add_callable("pythonFetch", self._answer)
        self.context.eval((ROOT / "tests/system/browser.js").read_text())
        for tag, attributes in Skeleton((WEB / "index.html").read_text()).elements:
            self.context.eval(f"addPart({json.dumps(tag)}, {json.dumps(attributes.get('id'))})")
        self.context.eval(f"location.hash = {json.dumps(hash)}")
        self.context.eval((WEB / "dashboard.js").read_text())
        self._finish()

    def _ask(self, path):
        reply = Client(self.address).request("GET", f"/{path}")
        return {"status": reply.status, "body": reply.body.decode(), "date": reply.headers["Date"]}

    def _answer(self, path):
        self.paths.append(path)
        try:
            return json.dumps(self._fetch(path))
        except OSError as error:
            return json.dumps({"error": str(error)})

    def _finish(self):
        for _ in range(JOBS_MAX):
            if not self.context.execute_pending_job():
                return
        raise AssertionError("the script does not come to an end")

    def refresh(self):
        """One more reading, as its timer would begin it."""
        self.context.eval("void refresh()")
        self._finish()
        return self

    def choose(self, job):
        self.context.eval(f"document.getElementById('job').listeners.change({{target: {{value: {json.dumps(job)}}}}})")
        self._finish()

    def look_up(self, key, encoding="text"):
        """Fills the form in and submits it."""
        self.context.eval(f"document.getElementById('key').value = {json.dumps(key)}")
        self.context.eval(f"document.getElementById('key-encoding').value = {json.dumps(encoding)}")
        self.context.eval("document.getElementById('key-form').listeners.submit({preventDefault() {}})")
        self._finish()

    def rows(self, part):
        """Texts of the visible cells of a section, its head first; [] when it says that there is nothing."""
        return json.loads(self.context.eval(f"seen({json.dumps(part)})"))

    def table(self, part):
        """[{title: text}] of the rows that are no headings."""
        head, *rows = self.rows(part) or [[]]
        return [dict(zip(head, row)) for row in rows if len(row) == len(head)]

    def text(self, part):
        return self.context.eval(f"document.getElementById({json.dumps(part)}).textContent")

    def eval(self, expression):
        return json.loads(self.context.eval(f"JSON.stringify({expression})"))


def http_date(at=None):
    return time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(at))
