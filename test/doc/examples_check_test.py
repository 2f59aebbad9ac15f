#!/usr/bin/env python3
# test/doc/examples_check_test.py WEIRCTL POLICY... - weirctl check warns of nothing in the examples but of what they are
# examples of, and of each of that.
#
# SPDX-License-Identifier: Apache-2.0
import json
import os
import subprocess
import sys
import unittest

# What is meant so, by file.
WARNINGS = {
    "notifications.json": ["parent-ignored"],
    "service_config.json": ["retry-not-idempotent"],
    "shadow.json": ["breaker-shadow"],
}


def check(*arguments):
    """The exit status, and what is told of each file."""
    run = subprocess.run([WEIRCTL, "check", "--json"] + list(arguments), stdout=subprocess.PIPE, check=False)
    return run.returncode, json.loads(run.stdout)["files"]


class ExamplesCheckTest(unittest.TestCase):

    def test_each_is_accepted_with_the_warnings_that_are_meant(self):
        status, files = check(*POLICIES)
        self.assertEqual(status, 0)
        self.assertEqual(len(files), len(POLICIES))
        self.assertGreaterEqual(len(files), 14)
        self.hold_against_what_is_meant(files)

    def hold_against_what_is_meant(self, files):
        for told in files:
            expected = WARNINGS.get(os.path.basename(told["file"]), [])
            self.assertEqual([problem["id"] for problem in told["problems"]], expected, told["problems"])


if __name__ == "__main__":
    WEIRCTL = sys.argv[1]
    POLICIES = [path for path in sys.argv[2:] if path.endswith(".json")]
    unittest.main(argv=sys.argv[:1])
