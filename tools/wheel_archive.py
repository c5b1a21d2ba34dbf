# SPDX-License-Identifier: Apache-2.0
"""Packs a folder as a wheel (PEP 427): wheel_archive.py FOLDER VERSION MODULE OUTPUT. Prints the wheel's path. For make-wheel."""

import base64
import hashlib
import os
import pathlib
import re
import sys
import sysconfig
import zipfile

EPOCH = (2020, 1, 1, 0, 0, 0)  # the same folder makes the same wheel


def metadata(version, licences):
    readme = pathlib.Path("README.md").read_text(encoding="utf-8")
    project = pathlib.Path("pyproject.toml").read_text(encoding="utf-8")
    summary = re.search(r'^description = "(.*)"$', project, re.M)[1]
    python = re.search(r'^requires-python = "(.*)"$', project, re.M)[1]
    lists = {name: re.findall(r'"([^"]*)"', re.search(rf"^{name} = \[(.*?)\]", project, re.M | re.S)[1]) for name in ("classifiers", "keywords")}
    # A wheel is of one Python; what it may run on is said by its tag.
    classifiers = [*lists["classifiers"], f"Programming Language :: Python :: {sys.version_info[0]}.{sys.version_info[1]}"]
    return (
        f"Metadata-Version: 2.4\nName: ashlar\nVersion: {version}\nSummary: {summary}\nAuthor: The Ashlar authors\n"
        f"License-Expression: Apache-2.0\n" + "".join(f"License-File: {name}\n" for name in licences) +
        f"Keywords: {','.join(lists['keywords'])}\nRequires-Python: {python}\n" +
        "".join(f"Classifier: {one}\n" for one in classifiers) +
        f"Description-Content-Type: text/markdown\n\n{readme}"
    )


def main():
    folder, version, module, output = sys.argv[1:]
    tag = re.search(r"\.cpython-(\d+)-", module)[1]
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    tag = f"cp{tag}-cp{tag}-{platform}"
    info = f"ashlar-{version}.dist-info"
    files = {}
    for path in sorted(pathlib.Path(folder, "ashlar").rglob("*")):
        if path.is_file():
            files[path.relative_to(folder).as_posix()] = (path.read_bytes(), os.access(path, os.X_OK))
    # Its own, the notices of what is compiled in, and those of the libraries that come with it (make-wheel).
    licences = {"LICENSE": pathlib.Path("LICENSE"), "copyright": pathlib.Path("packaging/copyright")}
    licences.update((f"libraries/{path.name}", path) for path in sorted(pathlib.Path(folder, "licences").glob("*")))
    for name, path in licences.items():
        files[f"{info}/licenses/{name}"] = (path.read_bytes(), False)
    files[f"{info}/METADATA"] = (metadata(version, licences).encode(), False)
    files[f"{info}/WHEEL"] = (f"Wheel-Version: 1.0\nGenerator: make-wheel\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(), False)
    files[f"{info}/entry_points.txt"] = (b"[console_scripts]\nashlar = ashlar.command:main\n", False)
    record = "".join(
        f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()},{len(data)}\n"
        for name, (data, _) in files.items()
    )
    files[f"{info}/RECORD"] = ((record + f"{info}/RECORD,,\n").encode(), False)
    wheel = pathlib.Path(output, f"ashlar-{version}-{tag}.whl")
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as out:
        for name, (data, runs) in files.items():
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.external_attr = (0o100755 if runs else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            out.writestr(entry, data)
    print(wheel)


if __name__ == "__main__":
    main()
