# SPDX-License-Identifier: Apache-2.0
"""Conversations: streams, stops and edits, the list, errors, keys, tabs."""

import re

from page_support import CHAT, fulfil, LONG, Page, PROMPT, TABLE


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


def test_errors_in_plain_words(browser, url):
    p = Page(browser, url, errors_expected=True)
    p.set(max_tokens="8")
    cases = [
        (lambda r: fulfil(r, 429, {"message": "full"}, {"Retry-After": "3"}), ["busy", "3 s"]),
        (lambda r: fulfil(r, 400, {"message": "expected a number", "param": "top_p"}), ["top_p", "expected a number"]),
        (lambda r: fulfil(r, 400, {"message": "4 too many", "param": "messages", "code": "context_length_exceeded"}), ["begin a new chat", "4 too many"]),
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
