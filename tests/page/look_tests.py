# SPDX-License-Identifier: Apache-2.0
"""Widths, themes, the keyboard, settings."""

import json

from page_support import CHAT, Page, PROMPT, stream_of


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


def test_plain_narrow_and_themes(browser, url, shots=None):
    test_narrow_and_themes(browser, url, shots, "plain-")


def test_actions_and_tables_line_up(browser, url):
    """Under an answer and a message the actions begin and end where the text does; a word of a table is never broken."""
    p = Page(browser, url, 320, 640, panel=False)
    table = "| Port | Depth (m) | Ships a year | Notes |\n|---|---|---|---|\n| Oslo | 12.5 | 3,400 | cold and clear |"
    chunk = {"choices": [{"index": 0, "delta": {"content": table}, "finish_reason": None}]}
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    body = "".join(f"data: {data}\n\n" for data in (json.dumps(chunk), json.dumps(end), "[DONE]"))
    p.page.route(CHAT, lambda route: route.fulfill(status=200, content_type="text/event-stream", body=body))
    p.send("Ports?")
    p.wait_idle()
    edges = p.page.evaluate(
        "(() => { const text = (e) => { const r = document.createRange(); r.selectNodeContents(e); return r.getBoundingClientRect(); };"
        " const answer = document.querySelector('.answer'), user = document.querySelector('.user');"
        " return { copy: text(answer.querySelector('.actions .copy')).left, answer: answer.getBoundingClientRect().left,"
        " edit: text([...user.querySelectorAll('.actions button')].at(-1)).right, user: user.querySelector('.prose').getBoundingClientRect().right,"
        " lines: [...answer.querySelectorAll('th')].map((th) => new Set([...(() => {"
        " const r = document.createRange(); r.selectNodeContents(th); return r.getClientRects(); })()].map((one) => one.top)).size) }; })()"
    )
    assert abs(edges["copy"] - edges["answer"]) <= 1.5, edges
    assert abs(edges["edit"] - edges["user"]) <= 1.5, edges
    assert edges["lines"][0] == 1 and edges["lines"][1] <= 2 and edges["lines"][2] <= 3, f"words of the head are broken: {edges}"
    p.close()


def test_tasks_hang_where_other_items_do(browser, url):
    """The box stands in the place of the bullet, and the lines of a long task begin below its first word."""
    p = Page(browser, url, 320, 640, panel=False)
    tasks = "- plain\n- [ ] a task that goes on for more than one line of a narrow window\n- [x] done\n\n* loose\n\n* [ ] loose and longer than a line of any narrow window\n"
    p.page.route(CHAT, lambda route: route.fulfill(status=200, content_type="text/event-stream", body=stream_of(tasks)))
    p.send("Tasks?")
    p.wait_idle()
    lines = p.page.evaluate(
        "[...document.querySelectorAll('.answer .flow .task')].map((task) => { const lefts = []; const box = task.querySelector('.box');"
        " const walk = document.createTreeWalker(task, NodeFilter.SHOW_TEXT);"
        " for (let node; (node = walk.nextNode());) { if (box.contains(node)) continue; const r = document.createRange();"
        " r.selectNodeContents(node); lefts.push(...[...r.getClientRects()].map((one) => one.left)); }"
        " const text = (item) => { const r = document.createRange(); r.selectNodeContents(item); return r.getBoundingClientRect().left; };"
        " return [Math.min(...lefts), box.getBoundingClientRect().left, text(task.parentElement.firstElementChild), ...lefts]; })"
    )
    assert len(lines) == 3, lines
    for first, box, other, *lefts in lines:
        assert abs(first - other) <= 4 and box < other - 8, f"not where other items are: {lines}"
    assert max(len(lefts) for _, _, _, *lefts in lines) >= 2, f"no task was as long as two lines: {lines}"
    p.page.unroute(CHAT)
    p.close()
