#!/usr/bin/env python3
"""Drives the page of a running server in Chromium.

    tests/page/page_test.py http://127.0.0.1:8080 [--blocks http://127.0.0.1:8081] [--plain http://127.0.0.1:8082]
        [--shots FOLDER]

Needs the Python package playwright and a Chromium ($CHROMIUM, or `chromium` on the PATH). The server must have a drafter
and no API key; that of --blocks has a model that fills blocks, that of --plain no drafter, and the tests of such servers
run only with them. Exit status: 0 passed, 1 failed, 77 skipped for want of playwright or Chromium. What the server does
not do on demand (429, 401, a broken stream) is put in its place by intercepting requests.
"""

import argparse
import json
import os
import re
import shutil
import sys
import traceback

try:
    from playwright.sync_api import sync_playwright
except ImportError:
    print("skipped: the Python package playwright is missing")
    sys.exit(77)

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


def test_chat_streams_and_tints(browser, url):
    p = Page(browser, url)
    p.set(temperature="0", max_tokens="200")
    p.page.evaluate(
        "() => { window.sizes = new Set(); new MutationObserver(() =>"
        " window.sizes.add(document.querySelector('.answer > .flow')?.textContent.length))"
        ".observe(document.getElementById('log'), {childList: true, subtree: true, characterData: true}); }"
    )
    # A fast machine's short answer would be read in one go.
    p.context.new_cdp_session(p.page).send(
        "Network.emulateNetworkConditions",
        {"offline": False, "latency": 0, "downloadThroughput": 20_000, "uploadThroughput": -1},
    )
    p.send(TABLE)
    p.wait_idle()
    sizes = p.page.evaluate("[...window.sizes].filter((n) => n > 0)")
    assert len(sizes) > 1, f"the answer came at once: {sizes}"
    text = p.page.inner_text(".answer > .flow")
    assert len(text) > 20, f"a short answer: {text!r}"
    assert p.page.locator(".answer .drafted").count() > 0, "no drafted text"
    record = p.page.evaluate("JSON.parse(sessionStorage['ashlar.chat']).messages.at(-1)")
    drafted, at = [], 0
    for _, length, kind, *_ in record["runs"]:
        drafted += [(kind, record["content"][at : at + length])] if kind > 0 else []
        at += length
    assert all(a[0] != b[0] for a, b in zip(drafted, drafted[1:])), f"tints do not alternate: {drafted}"
    for kind, name in ((1, "even"), (2, "odd")):  # a run is drawn in pieces, one a line or colour; marks of markdown are not
        shown = "".join(p.page.locator(f".answer .{name}").all_text_contents())
        said = "".join(text for k, text in drafted if k == kind)
        left = iter(said)
        assert all(c in left for c in shown), f"not in the order of the text: {(name, shown, said)}"
        assert len(re.sub(r"\s", "", shown)) >= 0.8 * len(re.sub(r"[\s`]|json", "", said)), (name, shown, said)
    styles = p.page.evaluate(
        "['.samples .even', '.samples .odd'].map((s) => getComputedStyle(document.querySelector(s)).textDecorationStyle)"
    )
    assert styles[0] != styles[1], "the tints differ by colour alone"
    p.page.uncheck("#tint")
    decoration = "getComputedStyle(document.querySelector('.answer .drafted')).textDecorationLine"
    assert p.page.evaluate(decoration) == "none"
    p.page.check("#tint")
    figures = p.page.locator(".answer .numbers dd").all_inner_texts()[1:]  # too few arrivals have no speed
    assert "–" not in figures, f"figures are missing: {figures}"
    assert p.page.locator("#acceptance rect").count() > 0, "no bars"
    body = p.bodies[-1]
    assert body["stream"] and body["stream_options"] == {"include_usage": True, "include_blocks": True}, body
    assert body["temperature"] == 0 and body["max_tokens"] == 200 and isinstance(body["seed"], int), body
    # A reload shows the same conversation, tints included.
    markup = "document.querySelector('.answer > .flow').outerHTML"
    before = p.page.evaluate(markup)
    p.page.reload()
    p.page.wait_for_selector(".answer .drafted")
    assert p.page.evaluate(markup) == before, "a reload changed the answer"
    assert p.page.input_value("#set-temperature") == "0"
    p.close()


def test_stop_edit_retry_clear(browser, url):
    p = Page(browser, url)
    p.set(temperature="1", max_tokens="3000", stop="")
    stream = (  # a stream that never ends by itself
        "() => { window.fetchBefore = window.fetch; window.fetch = (path, options) => !path.includes('/chat/')"
        " ? window.fetchBefore(path, options) : Promise.resolve(new Response(new ReadableStream({start(c) {"
        " const line = 'data: ' + JSON.stringify({choices: [{index: 0, delta: {content: 'one '}}],"
        " block: {tokens: 1, drafted: 0}}) + '\\n\\n';"
        " const timer = setInterval(() => c.enqueue(new TextEncoder().encode(line)), 20);"
        " options.signal.addEventListener('abort', () => { clearInterval(timer);"
        " c.error(new DOMException('stop', 'AbortError')); }); }}))); }"
    )
    p.page.evaluate(stream)
    p.send(LONG)
    p.page.wait_for_selector("#stop:visible")
    p.wait_until("document.querySelector('.answer > .flow').textContent.length > 8")
    p.page.keyboard.press("Escape")
    p.wait_idle()
    assert "Stopped" in p.page.inner_text(".answer .note")
    p.page.evaluate("() => { window.fetch = window.fetchBefore; }")
    p.set(max_tokens="16", temperature="0")
    p.page.get_by_role("button", name="Edit your last message").click()
    assert p.page.input_value("#prompt") == LONG
    p.page.fill("#prompt", PROMPT)
    p.page.press("#prompt", "Enter")
    p.wait_idle()
    assert p.page.locator(".user").count() == 1 and p.page.locator(".answer").count() == 1
    assert [m["role"] for m in p.bodies[-1]["messages"]] == ["user"], p.bodies[-1]
    first = p.page.inner_text(".answer > .flow")
    p.page.get_by_role("button", name="Answer again").click()
    p.wait_idle()
    assert p.page.inner_text(".answer > .flow") == first, "the greedy answer changed"
    p.page.click("#clear")
    assert p.page.locator(".message").count() == 0
    p.page.get_by_role("button", name="Bring back").click()
    assert p.page.locator(".message").count() == 2
    p.close()


def test_compare_is_identical(browser, url):
    p = Page(browser, url)
    p.set(max_tokens="64", temperature="0.8")
    p.page.click("#tab-compare")
    for order in ("#order-after", "#order-together"):
        p.page.check(order)
        p.compare()
        outcome = p.page.inner_text("#outcome")
        assert "Identical" in outcome, outcome
        plain, drafted = p.bodies[-2:]
        assert plain.pop("speculative") is False and "speculative" not in drafted
        assert plain.pop("cache_salt") != drafted.pop("cache_salt")
        assert plain == drafted, "the two requests differ"
        assert p.page.locator("#lane-plain .drafted").count() == 0, "plain has drafted text"
        assert p.page.locator("#lane-drafted .drafted").count() > 0, "nothing was drafted"
        texts = [p.page.inner_text(f"#lane-{name} > .flow") for name in ("plain", "drafted")]
        assert texts[0] == texts[1] and texts[0], texts
    p.close()


def spoken(tokens, ms, drafted):
    """A script that answers a chat request with so many tokens in so many milliseconds, each drafted or not."""
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


def test_compare_takes_several_turns(browser, url, shots=None):
    p = Page(browser, url, panel=False)
    p.set(max_tokens="48", temperature="0")
    p.page.click("#tab-compare")
    p.compare(turns=3)
    outcome = p.page.inner_text("#outcome")
    assert "Identical" in outcome, outcome
    assert [body.get("speculative") for body in p.bodies] == [False, None, None, False, False, None], "the order does not alternate"
    if shots:
        p.page.screenshot(path=f"{shots}/compare-turns.png")
    p.page.reload()
    assert p.page.input_value("#compare-turns") == "3"
    p.page.evaluate(spoken(12, (10, 10), 0))
    p.compare(turns=3)
    outcome = p.page.inner_text("#outcome")
    assert re.search(r"median of 3 turns, [\d.]+ to [\d.]+", outcome), outcome
    assert "No drafts were worth checking" in p.page.inner_text("#outcome"), p.page.inner_text("#outcome")
    p.close()


def test_says_that_drafting_paused(browser, url):
    p = Page(browser, url)
    p.page.wait_for_selector("#status[data-state=up]")
    paused = "Drafting paused: rows cost too much on this machine"
    for drafted, shown, speculative in ((0, True, True), (5, False, True), (0, False, False)):
        p.page.evaluate(spoken(12, (1, 1), drafted))
        if not speculative:
            p.page.click("#tab-request")
            p.page.uncheck("#set-speculative")
        p.send("Go")
        p.wait_idle()
        assert (paused in p.page.locator(".answer").last.inner_text()) == shown, (drafted, speculative)
        p.page.reload()
        p.page.wait_for_selector(".answer")
        assert (paused in p.page.locator(".answer").last.inner_text()) == shown, "a reload changed what is said"
    p.close()


def test_new_chat_and_the_list(browser, url, shots=None):
    p = Page(browser, url, panel=False)
    p.set(max_tokens="8", temperature="0")
    assert p.page.title() == "Ashlar" and p.page.is_disabled("#new-chat")
    for words in ("First of all", "Second thought"):
        p.send(words)
        p.wait_idle()
        assert p.page.title() == f"{words} · Ashlar" and p.page.inner_text("#chat-title") == words
        p.page.click("#new-chat")
        assert p.page.locator(".message").count() == 0 and p.page.title() == "Ashlar"
    p.page.click("#chats")
    rows = p.page.locator("#chats-list li")
    assert rows.locator(".title").all_inner_texts() == ["Second thought", "First of all"]
    if shots:
        p.page.screenshot(path=f"{shots}/chats.png")
    rows.locator(".example").last.click()
    assert not p.page.is_visible("#chats-dialog") and p.page.inner_text(".user .prose") == "First of all"
    p.page.click("#chats")
    p.page.get_by_role("button", name="Forget the conversation: Second thought").click()
    assert "No others" in p.page.inner_text("#chats-list")
    p.page.keyboard.press("Escape")
    # As many as are kept, the oldest go.
    p.page.evaluate("() => { for (let i = 0; i < 60; ++i) localStorage.setItem('ashlar.chat.old' + i, JSON.stringify({at: i + 1,"
                    " messages: [{role: 'user', content: 'old ' + i}]})); }")
    p.send("Newest")
    p.wait_idle()
    names = p.page.evaluate("Object.keys(localStorage).filter((k) => k.startsWith('ashlar.chat'))")
    assert len(names) == 50 and "ashlar.chat.old59" in names and "ashlar.chat.old5" not in names, names
    p.close()


def test_panel_is_folded_until_it_is_wanted(browser, url):
    p = Page(browser, url, panel=False)
    assert not p.page.is_visible("#panel") and p.page.is_visible("#panel-toggle")
    p.page.click("#panel-toggle")
    assert p.page.is_visible("#panel") and p.page.is_visible("#log")
    p.page.reload()
    assert p.page.is_visible("#panel"), "a reload folds what was opened"
    p.page.click("#panel-toggle")
    p.page.reload()
    assert not p.page.is_visible("#panel")
    p.close()


def test_errors_in_plain_words(browser, url):
    p = Page(browser, url, errors_expected=True)
    p.set(max_tokens="8")
    cases = [
        (lambda r: fulfil(r, 429, {"message": "full"}, {"Retry-After": "3"}), ["busy", "3 s"]),
        (lambda r: fulfil(r, 400, {"message": "expected a number", "param": "top_p"}), ["top_p", "expected a number"]),
        (lambda r: fulfil(r, 500, {"message": "oops"}), ["inside the server", "oops"]),
        (lambda r: r.abort(), ["cannot be reached"]),
        (lambda r: r.fulfill(status=200, content_type="text/event-stream", body='data: {"choices": []}\n\n'), ["ended before"]),
        (lambda r: r.fulfill(status=200, content_type="text/event-stream", body="data: {oops\n\n"), ["broke before"]),
    ]
    p.page.route(CHAT, cases[0][0])
    p.send(PROMPT)
    for i, (handler, words) in enumerate(cases):
        if i > 0:
            p.page.unroute(CHAT)
            p.page.route(CHAT, handler)
            p.page.get_by_role("button", name="Try again").click()
        p.wait_until(
            "words => words.every((word) => document.querySelector('.failure')?.textContent.includes(word))", arg=words
        )
    p.page.unroute(CHAT)
    p.page.get_by_role("button", name="Try again").click()
    p.wait_idle()
    assert p.page.locator(".failure:visible").count() == 0 and p.page.locator(".answer").count() == 1
    p.close()


def key_guard(seen):
    """A route that lets in who has the key "right", and puts what each request was sent with into `seen`."""

    def guard(route):
        seen.append(route.request.headers.get("authorization"))
        if seen[-1] == "Bearer right":
            return route.continue_()
        return fulfil(route, 401, {"message": "A valid API key is needed"})

    return guard


def test_asks_for_the_key(browser, url):
    p = Page(browser, url, errors_expected=True)
    p.set(max_tokens="8")
    seen = []
    p.page.route(CHAT, key_guard(seen))
    p.send(PROMPT)
    for key in ("wrong", "right"):
        p.page.wait_for_selector("#key-dialog[open]")
        p.page.fill("#key", key)
        p.page.press("#key", "Enter")
        p.wait_until("document.querySelector('#key').value === ''")
    p.wait_idle()
    assert seen == [None, "Bearer wrong", "Bearer right"], seen
    assert "right" not in p.page.evaluate("JSON.stringify(localStorage)"), "the key outlives the tab"
    p.page.click("#tab-request")
    assert "$ASHLAR_API_KEY" in p.page.inner_text("#curl") and "right" not in p.page.inner_text("#curl")
    p.close()


def test_keys_that_no_header_can_carry(browser, url, shots=None):
    p = Page(browser, url, errors_expected=True)
    p.set(max_tokens="8")
    seen = []

    def refused(key, *words):
        p.page.fill("#key", key)
        p.page.press("#key", "Enter")
        said = p.page.inner_text("#key-wrong")
        assert p.page.is_visible("#key-dialog") and all(word in said for word in ("Not a valid key: ", *words)), (key, said)
        marked = "[document.activeElement.id, document.activeElement.selectionEnd - document.activeElement.selectionStart]"
        assert p.page.evaluate(marked) == ["key", len(key)], "the next paste does not take its place"

    p.page.route(CHAT, key_guard(seen))
    p.send(PROMPT)
    p.page.wait_for_selector("#key-dialog[open]")
    refused("ri\u2192ght", "character 3", "\u2192", "U+2192")
    refused("ri\u200bght", "character 3", "invisible", "U+200B")
    refused("r\u00efght", "character 2", "U+00EF")
    refused("right or wrong", "character 6", "a space")
    refused("\u200b\ufeff", "nothing of it can be seen")
    refused("r" * 9000, "9000", "8192")
    assert seen == [None], seen
    if shots:
        for scheme, width in (("light", 1280), ("dark", 1280), ("light", 390)):
            p.page.emulate_media(color_scheme=scheme)
            p.page.set_viewport_size({"width": width, "height": 800})
            refused("ri\u2192ght")
            p.page.screenshot(path=f"{shots}/{scheme}-{width}-key-refused.png")
    p.page.fill("#key", "\ufeff\u200b right\u2060\u200b\u00a0")
    assert p.page.inner_text("#key-wrong") == "", "an old error at a new key"
    p.page.press("#key", "Enter")
    p.wait_idle()
    assert seen == [None, "Bearer right"], seen
    # One that an older page kept.
    p.page.evaluate("sessionStorage.setItem('ashlar.key', JSON.stringify('right\u200b'))")
    p.page.reload()
    p.page.wait_for_selector("#status[data-state=up]")
    assert "right" not in p.page.evaluate("JSON.stringify(sessionStorage['ashlar.key'] ?? '')"), "the key is still there"
    p.send(PROMPT)
    p.page.wait_for_selector("#key-dialog[open]")
    said = p.page.inner_text("#key-wrong")
    assert "dropped" in said and "U+200B" in said, said
    p.page.fill("#key", "right")
    p.page.press("#key", "Enter")
    p.wait_idle()
    assert seen[2:] == [None, "Bearer right"], seen
    assert p.page.locator(".failure:visible").count() == 0
    p.close()


def test_tabs_keep_their_own_conversations(browser, url, shots=None):
    p = Page(browser, url)
    p.set(max_tokens="8", temperature="0")
    p.send("Said in A")
    p.wait_idle()
    first = p.page

    def tab(go_on=None):
        p.page = p.context.new_page()
        p.page.goto(url)
        p.page.wait_for_selector("#log > *")
        assert p.page.locator(".message").count() == 0, "a new tab shows another's conversation as its own"
        if go_on:
            p.page.get_by_role("button", name=go_on).first.click()
        return p.page

    def said(page):
        return page.locator(".user .prose").all_inner_texts()

    second = tab()
    p.send("Said in B")
    p.wait_idle()
    for page, words in ((first, "Said in A"), (second, "Said in B")):
        page.reload()
        page.wait_for_selector(".message")
        assert said(page) == [words], said(page)
    # A tab that is closed leaves its conversation to a later one; two that go on with the same part from there on.
    first.close()
    second.close()
    third = tab("Said in A")
    assert said(third) == ["Said in A"]
    fourth = tab("Said in A")
    for page, words in ((third, "Then in C"), (fourth, "Then in D")):
        p.page = page
        p.send(words)
        p.wait_idle()
    for page, words in ((third, "Then in C"), (fourth, "Then in D")):
        page.reload()
        page.wait_for_selector(".message")
        assert said(page) == ["Said in A", words], said(page)
        page.close()
    last = tab()
    assert last.locator(".earlier li").count() == 3, last.inner_text(".earlier")
    if shots:
        for scheme, width in (("light", 1280), ("dark", 1280), ("light", 390)):
            last.emulate_media(color_scheme=scheme)
            last.set_viewport_size({"width": width, "height": 800})
            last.screenshot(path=f"{shots}/{scheme}-{width}-earlier.png")
    # Forgetting one leaves the others, and what is cleared is kept nowhere.
    last.get_by_role("button", name="Forget the conversation: Said in B").click()
    assert last.locator(".earlier li").count() == 2 and "Said in B" not in last.evaluate("JSON.stringify(localStorage)")
    last.get_by_role("button", name="Said in A").first.click()
    last.click("#clear")
    assert last.locator(".earlier li").count() == 1
    last.get_by_role("button", name="Bring back").click()
    assert said(last) == ["Said in A", "Then in D"], said(last)
    last.reload()
    last.wait_for_selector(".message")
    assert said(last) == ["Said in A", "Then in D"], "what was brought back is gone after a reload"
    p.close()


def test_says_what_is_not_kept(browser, url):
    full = (
        "areas => { const set = Storage.prototype.setItem; Storage.prototype.setItem = function (...rest) {"
        " if (areas.includes(this === localStorage ? 'local' : 'session')) throw new DOMException('full', 'QuotaExceededError');"
        " return set.apply(this, rest); }; }"
    )
    for areas, words in ((["local", "session"], "gone after a reload"), (["local"], "gone when this tab is closed"), (["session"], "")):
        p = Page(browser, url)
        p.set(max_tokens="8", temperature="0")
        p.page.evaluate(full, areas)
        p.send(PROMPT)
        p.wait_idle()
        banner = p.page.inner_text("#not-kept") if p.page.is_visible("#not-kept") else ""
        assert words in banner and (words != "") == (banner != ""), (areas, banner)
        p.close()


def stream_of(*parts):
    """A body of events that say these texts, drafted every second time."""
    events = [{"choices": [{"index": 0, "delta": {"content": part}}], "block": {"tokens": 2, "drafted": i % 2}}
              for i, part in enumerate(parts)]
    return "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"


MARKDOWN = """## Stones and gates

A wall of **grey stone**, a gate of *oak*, and `mortar(2)` between; see [the plan](https://example.org/plan).

1. Cut the stones:
   - *large* ones for the corners
   - small ones for the rest
2. Lay them:
   ```sh
   lay --from corner "$STONE"  # slowly
   ```

| stone | weight / kg | price |
|:------|------------:|:-----:|
| granite | 41.5 | high |
| lime | 27 | ~~low~~ fair |

> Measure twice,
> cut once.

```python
def area(width: float, height: float = 2.5) -> float:
    '''Of a wall, in square metres.'''
    return width * height  # without the gate
```

The area is $A = w_1 h_1 - w_2 h_2$, and \\(w_2\\) is the gate's.

---

#### Then

Done.
"""
HOSTILE = (
    "<script>window.hit = 1</script><img src=x onerror='window.hit = 2'>\n\n[a](javascript:window.hit=3) "
    "[b](data:text/html,<script>window.hit=4</script>) <javascript:window.hit=5> ![c](https://example.org/c.png)\n\n"
    + ">" * 10_000 + " deep\n\n" + "- " * 10_000 + "deep\n\n" + "[" * 10_000 + "*" * 10_000 + "\n\n"
    + "|a|b|\n|-|-|\n" + "|1|2|\n" * 2000 + "\n```<script>window.hit=6</script>\nnever closed <b>bold</b>\n"
)


def test_answers_are_markdown(browser, url, shots=None):
    for scheme, width in (("light", 1280), ("dark", 1280), ("light", 390), ("dark", 390)):
        p = Page(browser, url, width, 1400, scheme)
        words = re.split(r"(?<= )", MARKDOWN)
        p.page.route(CHAT, lambda r: r.fulfill(status=200, content_type="text/event-stream", body=stream_of(*words)))
        p.send("How is a wall built?")
        p.wait_idle()
        flow = p.page.locator(".answer > .flow")
        for part, n in (("h4", 1), ("h6", 1), ("ol > li", 2), ("ol ul > li", 2), ("table tbody tr", 2), ("blockquote", 1), (".code", 2),
                        ("strong", 1), ("del", 1), ("hr", 1), (".maths", 2), (".hl-keyword", 2)):
            assert flow.locator(part).count() == n, f"{flow.locator(part).count()} {part}"
        link = flow.locator("a")
        assert link.get_attribute("href") == "https://example.org/plan" and "noopener" in link.get_attribute("rel")
        assert flow.locator(".drafted").count() > 20, "the tints are gone"
        assert p.page.evaluate("getComputedStyle(document.querySelector('.answer td.to-right')).textAlign") == "right"
        assert p.overflow() <= 0
        code = "def area(width: float, height: float = 2.5) -> float:"
        p.page.evaluate("() => { window.copied = ''; document.execCommand = () => (window.copied = document.activeElement.value) !== '';"
                        " Object.defineProperty(navigator, 'clipboard', {value: undefined}); }")
        flow.get_by_role("button", name="Copy this code").last.click()
        assert p.page.evaluate("window.copied").startswith(code + "\n    ")
        if shots:
            p.page.mouse.move(0, 0)
            p.page.screenshot(path=f"{shots}/{scheme}-{width}-markdown.png")
        p.page.unroute(CHAT)
        p.close()


def test_hostile_markdown_is_harmless(browser, url):
    p = Page(browser, url, width=390)
    parts = [HOSTILE[i : i + 64] for i in range(0, len(HOSTILE), 64)]
    p.page.route(CHAT, lambda r: r.fulfill(status=200, content_type="text/event-stream", body=stream_of(*parts)))
    p.send("Be evil")
    p.wait_idle()
    flow = p.page.locator(".answer > .flow")
    assert flow.locator("script, img, b, iframe, style").count() == 0
    links = flow.locator("a").evaluate_all("all => all.map((a) => a.getAttribute('href'))")
    assert links == ["https://example.org/c.png"], links
    assert "<img src=x onerror='window.hit = 2'>" in flow.inner_text() and "never closed <b>bold</b>" in flow.inner_text()
    assert flow.locator("tbody tr").count() == 2000
    depth = "[...document.querySelectorAll('.answer .flow *')].reduce((most, e) => { let n = 0; for (; e; e = e.parentElement) n += 1;" \
        " return Math.max(most, n); }, 0)"
    assert p.page.evaluate(depth) < 60
    assert p.page.evaluate("window.hit") is None
    assert p.overflow() <= 0
    wide = p.page.evaluate("document.getElementById('log').scrollWidth - document.getElementById('log').clientWidth")
    assert wide <= 0, "a deep answer widens the conversation"
    p.page.unroute(CHAT)
    p.close()


def test_data_is_never_markup(browser, url):
    p = Page(browser, url, width=320)
    evil = "<img src=x onerror=alert(1)><b>bold</b> ```\n<script>alert(2)</script>\n```\n&amp; " + "W" * 400
    events = [{"choices": [{"index": 0, "delta": {name: evil}}], "block": {"tokens": 9, "drafted": 9}}
              for name in ("reasoning_content", "content")]
    events.append({"choices": [{"index": 0, "delta": {"tool_calls": [
        {"index": 0, "id": "c", "type": "function", "function": {"name": evil, "arguments": evil}}]}}]})
    body = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
    p.page.route(CHAT, lambda r: r.fulfill(status=200, content_type="text/event-stream", body=body))
    p.send(evil)
    p.wait_idle()
    assert p.page.locator("#log img, #log b, #log script").count() == 0
    assert "<b>bold</b>" in p.page.inner_text(".answer > .flow")
    assert p.overflow() <= 0, "a long word widens the page"
    wide = p.page.evaluate("document.getElementById('log').scrollWidth - document.getElementById('log').clientWidth")
    assert wide <= 0, "a long word widens the conversation"
    p.page.unroute(CHAT)
    p.close()


def test_settings(browser, url):
    p = Page(browser, url)
    p.page.click("#tab-request")
    p.page.fill("#set-temperature", "hot")
    assert p.page.get_attribute("#set-temperature", "aria-invalid") == "true"
    p.send(PROMPT)
    assert p.page.evaluate("document.activeElement.id") == "set-temperature" and not p.bodies
    p.page.fill("#set-temperature", "0.5")
    p.page.fill("#set-system", "Be brief; don't ramble.")
    p.page.fill("#set-stop", "END\nSTOP")
    p.page.fill("#set-seed", "7")
    p.page.fill("#set-max_tokens", "8")
    curl = p.page.inner_text("#curl")
    for part in ("curl ", '"temperature": 0.5', '"seed": 7', "don'\\''t", '"END"'):
        assert part in curl, f"{part} is not in {curl}"
    p.send(PROMPT)
    p.wait_idle()
    body = p.bodies[-1]
    assert body["messages"][0] == {"role": "system", "content": "Be brief; don't ramble."}
    assert body["stop"] == ["END", "STOP"] and body["seed"] == 7
    p.page.select_option("#set-format", "json_schema")
    p.page.fill("#set-schema", '{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}')
    p.page.fill("#set-max_tokens", "64")
    p.send("Give a number as JSON.")
    p.wait_idle()
    text = p.page.locator(".answer > .flow").last.inner_text()
    assert isinstance(json.loads(text)["a"], int), text
    p.close()


def test_keyboard_alone(browser, url):
    p = Page(browser, url)
    p.set(max_tokens="8")
    assert p.page.evaluate("document.activeElement.id") == "prompt"
    p.page.keyboard.type("Hello")
    p.page.keyboard.press("Shift+Enter")
    p.page.keyboard.type("there")
    p.page.keyboard.press("Enter")
    p.wait_idle()
    assert p.bodies[-1]["messages"][-1]["content"] == "Hello\nthere"
    p.wait_until("document.getElementById('announcer').textContent.startsWith('Answer')")
    p.page.evaluate("document.querySelector('.skip').focus()")
    reached = []
    for _ in range(40):
        p.page.keyboard.press("Tab")
        state = p.page.evaluate(
            "(() => { const e = document.activeElement; const s = getComputedStyle(e);"
            " return [e.id || e.getAttribute('aria-label') || e.textContent.trim().slice(0, 20), s.outlineStyle]; })()"
        )
        reached.append(state[0])
        assert state[1] != "none", f"focus on {state[0]} cannot be seen"
        if state[0] == "tab-figures":
            break
    for name in ("tab-chat", "theme", "log", "chats", "new-chat", "Edit your last message", "Copy the answer", "prompt", "clear", "send"):
        assert name in reached, f"Tab does not reach {name}: {reached}"
    p.page.focus("#tab-chat")
    p.page.keyboard.press("ArrowRight")
    assert p.page.is_visible("#view-compare") and p.page.is_hidden("#view-chat")
    p.close()


def test_narrow_and_themes(browser, url, shots=None, prefix=""):
    for scheme in ("light", "dark"):
        for width, height in ((320, 640), (360, 740), (768, 1024), (1280, 800)):
            p = Page(browser, url, width, height, scheme)
            p.set(max_tokens="48", temperature="0")
            p.send(PROMPT)
            p.wait_idle()
            for step in ("#tab-chat", "#tab-compare", "#panel-toggle", "#tab-request"):
                if p.page.is_visible(step) and (step != "#panel-toggle" or p.page.get_attribute(step, "aria-expanded") == "false"):
                    p.page.click(step)
                assert p.overflow() <= 0, f"scrolls sideways at {width} after {step}"
                wide = p.page.evaluate(
                    "[...document.querySelectorAll('main *, aside *, header *')].filter((e) => e.checkVisibility()"
                    " && !e.closest('.code, #curl, .offscreen, svg') && e.getBoundingClientRect().right > innerWidth + 0.5)"
                    ".map((e) => e.id || e.className)"
                )
                assert not wide, f"outside of the window at {width} after {step}: {wide}"
                if shots:
                    p.page.screenshot(path=f"{shots}/{prefix}{scheme}-{width}-{step[1:]}.png")
            p.close()


# What has formed by the time each run of text appeared: its pass over its block, and whether a masked position still showed.
WATCH = (
    "() => { window.started = []; document.addEventListener('animationstart', (event) => {"
    " const { block, pass } = event.target.dataset; window.started.push([Number(block), Number(pass)]); }, true); }"
)


def test_blocks_form_in_their_order(browser, url, shots=None):
    p = Page(browser, url)
    p.page.wait_for_selector("html[data-blocks='8']")
    p.set(temperature="0", max_tokens="120")
    p.send(TABLE)
    p.wait_idle()
    assert p.page.locator(".answer .drafted").count() == 0
    runs = p.page.evaluate("[...document.querySelectorAll('.answer .unmasked')].map((e) => [+e.dataset.block, +e.dataset.pass])")
    assert len(runs) > 4 and len({block for block, _ in runs}) > 2, runs
    assert [block for block, _ in runs] == sorted(block for block, _ in runs), "blocks are not in order"
    assert any(a[0] == b[0] and a[1] > b[1] for a, b in zip(runs, runs[1:])), "no block filled out of order"
    p.wait_until("document.querySelector('.unmasked.forming') === null")
    p.page.evaluate(WATCH)
    p.page.get_by_role("button", name="Show again how the answer formed").click()
    assert p.page.locator(".unmasked.forming").count() > 0
    if shots:
        p.page.wait_for_timeout(900)
        p.page.screenshot(path=f"{shots}/blocks-forming.png")
    p.wait_until("document.querySelector('.unmasked.forming') === null")
    started = p.page.evaluate("window.started")
    assert sorted(started) == started and len(started) == len(runs), f"runs did not appear pass by pass: {started}"
    numbers = p.page.locator(".answer .numbers dd").all_inner_texts()[1:]
    assert "–" not in numbers and float(numbers[0]) > 1, numbers
    assert "tokens a pass" in p.page.inner_text(".answer .numbers") and "mean length" not in p.page.inner_text(".answer .numbers")
    assert p.page.locator("#acceptance rect").count() > 0 and p.page.is_visible("#stat-passes")
    for gone in ("Acceptance", "Drafts accepted", "Mean length"):
        assert gone not in p.page.inner_text("#panel"), f"{gone} is shown"
    # A reload shows the same, tints included; the settings reach the server.
    markup = "document.querySelector('.answer > .flow').innerText"
    before = p.page.evaluate(markup)
    p.page.reload()
    p.page.wait_for_selector(".answer .unmasked")
    assert p.page.evaluate(markup) == before and p.page.locator(".forming").count() == 0
    p.set(threshold="1", max_tokens="24")
    p.send(PROMPT)
    p.wait_idle()
    assert p.bodies[-1]["dllm"] == {"threshold": 1} and "threshold" not in p.bodies[-1]
    assert "speculative" not in p.bodies[-1]
    p.close()


def test_blocks_stand_still_if_asked(browser, url):
    p = Page(browser, url, motion="reduce")
    p.set(temperature="0", max_tokens="48")
    p.page.evaluate(WATCH)
    p.send(PROMPT)
    p.wait_idle()
    p.page.wait_for_timeout(300)
    assert p.page.locator(".answer .unmasked").count() > 0 and p.page.evaluate("window.started") == []
    assert p.page.get_by_role("button", name="Show again how").count() == 0
    p.close()


def test_blocks_compare(browser, url):
    p = Page(browser, url)
    p.set(max_tokens="64", temperature="0")
    p.page.click("#tab-compare")
    p.compare()
    outcome = p.page.inner_text("#outcome")
    assert "must not happen" not in outcome and ("same text" in outcome or "Another text" in outcome), outcome
    plain, drafted = p.bodies[-2:]
    assert plain["speculative"] is False and "speculative" not in drafted
    means = [float(p.page.locator(f"#lane-{name} .numbers dd").nth(2).inner_text()) for name in ("plain", "drafted")]
    assert means[0] <= 1 < means[1], means
    p.close()


def test_blocks_narrow_and_themes(browser, url, shots=None):
    test_narrow_and_themes(browser, url, shots, "blocks-")


def test_plain_promises_no_drafts(browser, url):
    p = Page(browser, url)
    p.page.wait_for_selector("#status[data-state=up]")
    p.set(max_tokens="32", temperature="0")
    assert "drafted" not in p.page.inner_text("main"), "the chat promises drafts"
    assert p.page.is_hidden("#tint") and p.page.is_hidden("#acceptance") and "no drafter" in p.page.inner_text("#panel-figures")
    p.send(PROMPT)
    p.wait_idle()
    assert "mean length" not in p.page.inner_text(".answer .numbers").lower()
    p.page.click("#tab-compare")
    assert "no drafter" in p.page.inner_text("#compare-form") and "--drafter FOLDER" in p.page.inner_text("#compare-form")
    p.compare()
    outcome = p.page.inner_text("#outcome")
    assert "draft" not in outcome and "slower" not in outcome and "Identical" in outcome, outcome
    assert "Drafted" not in p.page.inner_text("#view-compare")
    # After a reload at once, not only when the server has answered.
    p.errors_expected = True
    p.page.route("**/stats", lambda route: route.abort())
    p.page.reload()
    assert p.page.get_attribute("html", "data-plain") is not None
    p.page.unroute("**/stats")
    p.close()


def test_plain_narrow_and_themes(browser, url, shots=None):
    test_narrow_and_themes(browser, url, shots, "plain-")


def test_stats_only_while_visible(browser, url):
    p = Page(browser, url)
    p.page.wait_for_selector("#status[data-state=up]")
    p.page.evaluate(
        "Object.defineProperty(document, 'hidden', {get: () => window.away, configurable: true});"
        "window.away = true; document.dispatchEvent(new Event('visibilitychange'))"
    )
    p.page.wait_for_timeout(300)
    count = len([u for u in p.requests if u.endswith("/stats")])
    p.page.wait_for_timeout(2500)
    assert len([u for u in p.requests if u.endswith("/stats")]) == count, "polls while hidden"
    p.page.evaluate("window.away = false; document.dispatchEvent(new Event('visibilitychange'))")
    p.page.wait_for_timeout(1600)
    assert len([u for u in p.requests if u.endswith("/stats")]) > count, "does not poll again"
    p.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", help="of a running server")
    parser.add_argument("--blocks", help="of a running server whose model fills blocks")
    parser.add_argument("--plain", help="of a running server without a drafter")
    parser.add_argument("--shots", help="folder for screenshots of all widths and themes")
    parser.add_argument("--only", default="", help="run tests whose name contains this")
    options = parser.parse_args()
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if not chromium:
        print("skipped: there is no Chromium")
        return 77
    failed = 0
    with sync_playwright() as playwright:
        # A container's root has no user namespaces for the sandbox; only the server under test is visited.
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name, test in list(globals().items()):
            if not name.startswith("test_") or options.only not in name:
                continue
            extra = {"shots": options.shots} if "shots" in test.__code__.co_varnames[:3] else {}
            kind = next((kind for kind in ("blocks", "plain") if name.startswith("test_" + kind)), "url")
            url = getattr(options, kind)
            if url is None:
                print(f"skipped {name}: no --{kind}", flush=True)
                continue
            try:
                test(browser, url.rstrip("/") + "/", **extra)
                print(f"ok      {name}", flush=True)
            except Exception:
                failed += 1
                print(f"FAILED  {name}\n{traceback.format_exc()}", flush=True)
        browser.close()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
