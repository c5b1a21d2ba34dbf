# SPDX-License-Identifier: Apache-2.0
"""What the tests of the page share: a browser's page with everything it asks for and reports on record."""

import json

PROMPT = "Repeat this sentence exactly: The wall was built of grey stone, and the gate was made of oak."
TABLE = "Convert this CSV to JSON:\n\nname,city,age\nAnna,Oslo,24\nBen,Rome,17\nClara,Paris,32\nDavid,Lima,19"
LONG = "Count from one to two thousand in words."
CHAT = "**/v1/chat/completions"
SLOW_MS = 60_000


class Page:
    """A fresh context: empty storage, everything it asks for and reports on record."""

    def __init__(self, browser, url, width=1280, height=800, scheme="light", errors_expected=False, motion="no-preference",
                 panel=True):
        self.url = url
        self.errors_expected = errors_expected
        self.context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme,
                                           reduced_motion=motion)
        self.page = self.context.new_page()
        self.console, self.requests, self.bodies = [], [], []
        self.page.on("console", lambda m: m.type in ("error", "warning") and self.console.append(m.text))
        self.page.on("pageerror", lambda error: self.console.append(str(error)))
        self.page.on("request", self._request)
        if panel:
            self.context.add_init_script("if (innerWidth > 992) localStorage.setItem('ashlar.panel-open', 'true')")
        self.page.goto(url)
        self.page.wait_for_selector("#status[data-state]")

    def _request(self, request):
        self.requests.append(request.url)
        if request.method == "POST":
            self.bodies.append(json.loads(request.post_data))

    def send(self, text):
        self.page.fill("#prompt", text)
        self.page.press("#prompt", "Enter")

    def wait_idle(self):
        self.page.wait_for_selector("#send:visible", timeout=SLOW_MS)

    def compare(self, turns=1):
        self.page.fill("#compare-prompt", PROMPT)
        self.page.fill("#compare-turns", str(turns))
        self.page.click("#compare-run")  # is hidden before the click is over, and may be there again right after it
        self.page.wait_for_selector("#compare-run:visible", timeout=SLOW_MS)

    def set(self, **settings):
        self.page.evaluate(
            "values => { for (const [k, v] of Object.entries(values)) {"
            " const field = document.getElementById('set-' + k); field.value = v;"
            " field.dispatchEvent(new Event('input', {bubbles: true})); } }",
            settings,
        )

    def wait_until(self, expression, arg=None):
        """wait_for_function evaluates from within the page, which the page's policy forbids."""
        for _ in range(600):
            if self.page.evaluate(expression, arg):
                return
            self.page.wait_for_timeout(50)
        raise AssertionError(f"never came true: {expression}")

    def overflow(self):
        return self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")

    def close(self):
        foreign = [url for url in self.requests if not url.startswith((self.url, "data:"))]
        assert not foreign, f"requests to elsewhere: {foreign}"
        if not self.errors_expected:
            assert not self.console, f"console: {self.console}"
        self.context.close()


def fulfil(route, status, error, headers=None):
    route.fulfill(status=status, headers=headers or {}, content_type="application/json", body=json.dumps({"error": error}))


def spoken(tokens, ms, drafted):
    """A script that answers a chat request with `tokens` tokens in `ms` milliseconds, each drafted or not."""
    return (
        "() => { const before = window.fetch; window.fetch = (path, options) => { if (!path.includes('/chat/')) return before(path, options);"
        f" const plain = JSON.parse(options.body).speculative === false; const pause = plain ? {ms[0]} : {ms[1]};"
        " return Promise.resolve(new Response(new ReadableStream({async start(c) { const put = (x) => c.enqueue(new TextEncoder()"
        f".encode('data: ' + JSON.stringify(x) + '\\n\\n')); for (let i = 0; i < {tokens}; ++i) {{"
        " await new Promise((done) => setTimeout(done, pause)); put({choices: [{index: 0, delta: {content: i + ' '}}],"
        " block: {tokens: 1, drafted: 0}}); }"
        f" put({{choices: [], metrics: {{speculative_decoding: {{drafted: {drafted}, accepted: 0, verify_steps: {tokens},"
        " mean_length: 1.001, drafted_per_position: [], accepted_per_position: []}}});"
        " c.enqueue(new TextEncoder().encode('data: [DONE]\\n\\n')); c.close(); }}))); }; }"
    )


def stream_of(*parts):
    """A body of events that say these texts, drafted every second time."""
    events = [{"choices": [{"index": 0, "delta": {"content": part}}], "block": {"tokens": 2, "drafted": i % 2}}
              for i, part in enumerate(parts)]
    return "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
