# SPDX-License-Identifier: Apache-2.0
"""Answers as markdown, and never as markup."""

import json
import re

from page_support import CHAT, Page, stream_of

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
