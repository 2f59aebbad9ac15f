#!/usr/bin/env python3
# doc/policy/schema_test.py SCHEMA DESCRIPTOR POLICY... - the JSON schema takes what the loader takes, and refuses what
# it can know to be wrong: policies, and documents at the ends of all ranges and one step beyond.
#
# SPDX-License-Identifier: Apache-2.0
import json
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(__file__))
sys.dont_write_bytecode = True

import generate
import jsonschema

RETRY = {"maxAttempts": 3, "initialBackoff": "0.1s", "maxBackoff": "1s", "backoffMultiplier": 2,
         "retryableStatusCodes": ["UNAVAILABLE"]}


def entry(**members):
    return {"methodConfig": [dict(members, name=[{"service": "a.B"}])]}


class SchemaTest(unittest.TestCase):

    def faults(self, document):
        return [fault.message for fault in VALIDATOR.iter_errors(document)]

    def test_it_is_a_schema(self):
        jsonschema.Draft7Validator.check_schema(VALIDATOR.schema)

    def test_it_takes_the_examples(self):
        self.assertGreater(len(POLICIES), 10)
        for path in POLICIES:
            with open(path, encoding="utf-8") as file:
                self.assertEqual(self.faults(json.load(file)), [], path)

    def test_it_takes_a_range_to_its_ends_and_no_further(self):
        n_trials = 0
        for field in (field for fields in COMMENTS.fields.values() for field in fields):
            if not field.is_duration and not field.is_a(generate.FIELD.TYPE_UINT32, generate.FIELD.TYPE_DOUBLE):
                continue
            bounds = generate.Bounds(COMMENTS, field)
            # Of lengths, no pattern knows which is the longer.
            refused = [value for value in bounds.refused if not field.is_duration or value <= 0]
            for values, right in ((bounds.accepted, True), (refused, False)):
                for value in values:
                    for document in generate.documents(COMMENTS, field.message, {field.key: bounds.text(value)}):
                        self.assertEqual(self.faults(json.loads(document)) == [], right, document)
                        n_trials += 1
        self.assertGreater(n_trials, 100)

    def test_what_is_enforced_is_a_policy_of_its_own_kind(self):
        ban = entry(retryPolicy={"maxAttempts": 1})
        self.assertEqual(self.faults({"enforce": ban}), [])
        self.assertNotEqual(self.faults(ban), [])
        self.assertNotEqual(self.faults({"enforce": entry(retryPolicy={"maxAttempts": 0})}), [])
        self.assertNotEqual(self.faults({"enforce": {"enforce": {}}}), [])
        self.assertNotEqual(self.faults({"enforce": {"retryThrottling": {"maxTokens": 10}}}), [])

    def test_it_refuses_what_it_can_know(self):
        for why, document in (
            ("a misspelt key", {"retryThrottle": {"maxTokens": 10, "tokenRatio": 0.1}}),
            ("a key astray", {"retryPolicy": RETRY}),
            ("a key in another case", entry(Timeout="1s")),
            ("a duration that is a number", entry(timeout=5)),
            ("a duration in another unit", entry(timeout="500ms")),
            ("no digit before the point", entry(timeout=".5s")),
            ("ten decimals", entry(timeout="0.1234567890s")),
            ("a required key that is missing", entry(retryPolicy={"maxAttempts": 3})),
            ("no code", entry(retryPolicy=dict(RETRY, retryableStatusCodes=[]))),
            ("a code that is none", entry(retryPolicy=dict(RETRY, retryableStatusCodes=["UNAVAILABEL"]))),
            ("OK as a code", entry(retryPolicy=dict(RETRY, retryableStatusCodes=["OK"]))),
            ("a translation to OK", {"translation": {"codes": {"NOT_FOUND": "OK"}}}),
            ("a name of no enum", {"breaker": {"scope": "PEER"}}),
            ("a text for a boolean", {"passTrace": "yes"}),
        ):
            self.assertNotEqual(self.faults(document), [], why)


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as schema_file:
        VALIDATOR = jsonschema.Draft7Validator(json.load(schema_file))
    COMMENTS = generate.Schema(sys.argv[2])
    POLICIES = [path for path in sys.argv[3:] if path.endswith(".json")]
    unittest.main(argv=sys.argv[:1])
