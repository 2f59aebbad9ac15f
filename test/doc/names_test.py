#!/usr/bin/env python3
# test/doc/names_test.py FILE... - the words of the headers and those of the pages:
#
# - doc/operations.md has every value of what reports, logs and counters say;
# - doc/abi.md says of every struct that does not begin with its size what becomes of it;
# - what a page calls by a name of weir's, a header declares.
#
# SPDX-License-Identifier: Apache-2.0
import re
import sys
import unittest

# Whose values doc/operations.md explains, and what they begin with; by the rest of them they are called.
ENUMS = {
    "weir_reason": "WEIR_REASON_",
    "weir_breaker_refusal": "WEIR_BREAKER_REFUSAL_",
    "weir_origin": "WEIR_ORIGIN_",
    "weir_blame": "WEIR_BLAME_",
    "weir_deadline_bound": "WEIR_DEADLINE_BOUND_",
    "weir_fallback_result": "WEIR_FALLBACK_",
    "weir_policy_file_state": "WEIR_POLICY_FILE_",
    "weir_log_event": "",
    "weir_error": "",
}

# Names in pages that no public header has, and why they are there.
NOT_DECLARED = {
    "weir_decide": "a target of the build, and a module of pkg-config",
    "weir_deps": "a macro of the build",
    "weir_init": "that there is none is said",
    "weir_shutdown": "likewise",
    "weir_test_deps": "a macro of the build",
    "weir_static": "a target of the CMake package",
    "weir_org_policy": "a heading's anchor",
    "weir_cc_library": "a rule of the build",
    "weir_cc_binary": "a rule of the build",
    "weir_cc_test": "a rule of the build",
    "weir_upb": "a repository of the build",
    "WEIR_ORG_POLICY": "a variable of the environment",
}


def without_comments(text):
    return re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)


def values_of(enum, headers):
    body = re.search(r"enum " + enum + r" \{(.*?)\}", headers, re.DOTALL)[1]
    return re.findall(r"\b(WEIR_\w+)", body)


def sections(page):
    """The first column of all tables of a page, each cell without its backquotes."""
    return {word for row in re.findall(r"^\| (.*?) \|", page, re.MULTILINE) for word in re.findall(r"`(\w+)`", row)}


class NamesTest(unittest.TestCase):

    def test_operations_explains_every_value(self):
        explained = sections(PAGES["doc/operations.md"])
        n_values = 0
        for enum, prefix in ENUMS.items():
            for value in values_of(enum, HEADERS):
                in_a_sentence = enum == "weir_policy_file_state" and f"`{value[len(prefix):]}`" in PAGES["doc/operations.md"]
                self.assertTrue(value[len(prefix):] in explained or in_a_sentence, f"{enum}: {value}")
                n_values += 1
        self.assertGreater(n_values, 60)

    def test_operations_explains_every_counter(self):
        body = re.search(r"struct weir_channel_counters \{(.*?)\};", HEADERS, re.DOTALL)[1]
        counters = re.findall(r"uint64_t (\w+);", body)
        self.assertGreater(len(counters), 10)
        self.assertEqual([name for name in counters if name not in sections(PAGES["doc/operations.md"])], [])

    def test_reasons_are_explained_with_what_to_do(self):
        rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \| ([^|]+) \|$", PAGES["doc/operations.md"], re.MULTILINE)
        told = {name: (what, action) for name, what, action in rows}
        for value in values_of("weir_reason", HEADERS):
            what, action = told[value[len("WEIR_REASON_"):]]
            self.assertTrue(what.strip() and action.strip(), value)

    def test_every_struct_without_a_size_is_spoken_of(self):
        structs = re.findall(r"^struct (\w+) \{\s*(.*?)^\};", HEADERS, re.MULTILINE | re.DOTALL)
        self.assertGreater(len(structs), 20)
        bare = [name for name, body in structs if not body.startswith("size_t size;")]
        self.assertEqual([name for name in bare if f"`struct {name}`" not in PAGES["doc/abi.md"]], [])

    def test_a_name_in_a_page_is_declared(self):
        declared = set(re.findall(r"\b(?:weir|WEIR)_\w+", HEADERS)) | set(NOT_DECLARED)
        wrong = []
        for path, page in PAGES.items():
            for name in re.findall(r"(?<![\w/.-])(weir_[a-z]\w*|WEIR_[A-Z]\w*)(?![\w…*/.])", page):
                if name not in declared and not name.endswith("_"):
                    wrong.append(f"{path}: {name}")
        self.assertEqual(wrong, [])


if __name__ == "__main__":
    FILES = {}
    for file_path in sys.argv[1:]:
        with open(file_path, encoding="utf-8") as opened:
            FILES[file_path] = opened.read()
    HEADERS = without_comments("".join(text for path, text in FILES.items() if path.endswith(".h")))
    # What has changed is called by its former names there; test vectors and models have names of their own.
    PAGES = {path: text for path, text in FILES.items() if path.endswith(".md") and "/adr/" not in path}
    unittest.main(argv=sys.argv[:1])
