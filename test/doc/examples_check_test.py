#!/usr/bin/env python3
# test/doc/examples_check_test.py WEIRCTL FILE... - weirctl check warns of nothing in the policies that users are shown,
# in files and in pages, but of what they are examples of.
#
# SPDX-License-Identifier: Apache-2.0
import json
import os
import re
import subprocess
import sys
import unittest

# Pages whose JSON is policies.
PAGES = ("README.md", "doc/policy.md", "doc/translation.md")

# What is meant so, by file.
WARNINGS = {
    "notifications.json": ["parent-ignored"],
    "service_config.json": ["retry-not-idempotent"],
    "shadow.json": ["breaker-shadow"],
}


def check(*arguments, document=""):
    """The exit status, and what is told of each file; - is `document`."""
    command = [WEIRCTL, "check", "--json"] + list(arguments)
    run = subprocess.run(command, input=document, stdout=subprocess.PIPE, check=False, encoding="utf-8", env={})
    return run.returncode, json.loads(run.stdout)["files"]


class ExamplesCheckTest(unittest.TestCase):

    def test_each_is_accepted_with_the_warnings_that_are_meant(self):
        status, files = check(*POLICIES)
        self.assertEqual(status, 0)
        self.assertEqual(len(files), len(POLICIES))
        self.assertGreaterEqual(len(files), 14)
        self.hold_against_what_is_meant(files)

    def test_each_channels_is_accepted_under_the_organisations(self):
        organisation = next(path for path in POLICIES if path.endswith("/organisation.json"))
        channels = [path for path in POLICIES if not os.path.basename(path).startswith("organisation")]
        status, files = check("--org", organisation, *channels)
        self.assertEqual(status, 0, files)
        self.assertGreaterEqual(len(files), 12)
        self.hold_against_what_is_meant(files)

    def test_those_of_pages_are_accepted_without_a_word(self):
        n_policies = 0
        for page in PAGES:
            with open(page, encoding="utf-8") as file:
                for policy in re.findall(r"^```json\n(.*?)^```", file.read(), re.DOTALL | re.MULTILINE):
                    status, files = check("-", document=policy)
                    self.assertEqual((status, files[0]["problems"]), (0, []), policy)
                    n_policies += 1
        self.assertGreaterEqual(n_policies, 5)

    def hold_against_what_is_meant(self, files):
        for told in files:
            expected = WARNINGS.get(os.path.basename(told["file"]), [])
            self.assertEqual([problem["id"] for problem in told["problems"]], expected, told["problems"])


if __name__ == "__main__":
    WEIRCTL = sys.argv[1]
    POLICIES = [path for path in sys.argv[2:] if path.endswith(".json")]
    unittest.main(argv=sys.argv[:1])
