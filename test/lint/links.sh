#!/usr/bin/env python3
# test/lint/links.sh - what pages link to is there: files and folders of the repository, and headings in pages. Every page
# of doc/ can be reached from README.md. Addresses of the network are not looked at.
#
# SPDX-License-Identifier: Apache-2.0
import os
import re
import subprocess
import sys

LINK = re.compile(r"\[(?:[^\]\[]|\[[^\]]*\])*\]\(([^)\s]+)\)")


def without_code(text):
    """The text with its blocks and its `code` blanked, line by line the same."""
    text = re.sub(r"^(```+)[^\n]*\n.*?^\1[ ]*$", lambda m: "\n" * m[0].count("\n"), text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]*`", lambda m: "`" + "x" * (len(m[0]) - 2) + "`", text)


def anchors_of(text):
    """The anchors of a page's headings, as GitHub makes them."""
    found = {}
    for heading in re.findall(r"^#{1,6} +(.*?)[ #]*$", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL),
                              re.MULTILINE):
        heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        found[slug] = found.get(slug, -1) + 1
    return {slug if nth == 0 else f"{slug}-{nth}" for slug, n in found.items() for nth in range(n + 1)}


def main():
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
    files = subprocess.run(["test/lint/files.sh"], stdout=subprocess.PIPE, check=True, encoding="utf-8").stdout.split("\n")
    folders = {os.path.dirname(file) for file in files}
    there = set(files) | folders | {os.path.dirname(folder) for folder in folders}
    pages = {}
    for path in files:
        if path.endswith(".md") and not path.startswith("doc/doxygen/"):
            with open(path, encoding="utf-8") as file:
                pages[path] = file.read()
    anchors = {path: anchors_of(text) for path, text in pages.items()}
    linked = {path: set() for path in pages}
    n_wrong = 0
    for path, text in pages.items():
        for number, line in enumerate(without_code(text).split("\n"), 1):
            for link in LINK.findall(line):
                if re.match(r"[a-z]+:", link):
                    continue
                target, _, anchor = link.partition("#")
                target = os.path.normpath(os.path.join(os.path.dirname(path), target)) if target else path
                linked[path].add(target)
                if target not in there:
                    print(f"{path}:{number}: {link}: there is no such file")
                elif anchor and anchor not in anchors.get(target, ()):
                    print(f"{path}:{number}: {link}: the page has no such heading")
                else:
                    continue
                n_wrong += 1
    reached = set()
    new = {"README.md"}
    while new:
        reached |= new
        new = {target for path in new for target in linked[path] if target in pages} - reached
    for path in sorted(path for path in set(pages) - reached if path.startswith("doc/")):
        print(f"{path}:1: no page that can be reached from README.md links to it")
        n_wrong += 1
    return int(n_wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
