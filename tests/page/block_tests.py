# SPDX-License-Identifier: Apache-2.0
"""Answers of models that fill blocks."""

import look_tests
from page_support import Page, PROMPT, TABLE

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
    look_tests.test_narrow_and_themes(browser, url, shots, "blocks-")
