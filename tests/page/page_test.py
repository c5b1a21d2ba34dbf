#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Drives the page of a running server in Chromium.

    tests/page/page_test.py http://127.0.0.1:8080 [--blocks http://127.0.0.1:8081] [--plain http://127.0.0.1:8082]
        [--shots FOLDER]

Needs the Python package playwright and a Chromium ($CHROMIUM, or `chromium` on the PATH). The server must have a drafter
and no API key; that of --blocks has a model that fills blocks, that of --plain no drafter, and the tests of such servers
run only with them. Exit status: 0 passed, 1 failed, 77 skipped for want of playwright or Chromium. What the server does
not do on demand (429, 401, a broken stream) is put in its place by intercepting requests.
"""

import argparse
import os
import shutil
import sys
import traceback

try:
    from playwright.sync_api import sync_playwright
except ImportError:
    print("skipped: the Python package playwright is missing")
    sys.exit(77)

import answer_tests
import block_tests
import chat_tests
import compare_tests
import look_tests


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
        modules = (chat_tests, answer_tests, compare_tests, look_tests, block_tests)
        tests = {name: test for module in modules for name, test in vars(module).items()}
        for name, test in tests.items():
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
