#!/usr/bin/env python3
# doc/policy/generate_test.py DESCRIPTOR TEMPLATE - what generate.py misses, it says: a comment without one of its
# words, a message without a table.
#
# SPDX-License-Identifier: Apache-2.0
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(__file__))
sys.dont_write_bytecode = True

import generate


def schema_with(change):
    """The schema, each of its comments changed by `change`(comment)."""
    with open(DESCRIPTOR, "rb") as file:
        files = generate.descriptor_pb2.FileDescriptorSet.FromString(file.read())
    for place in files.file[-1].source_code_info.location:
        place.leading_comments = change(place.leading_comments)
    with tempfile.NamedTemporaryFile() as changed:
        changed.write(files.SerializeToString())
        changed.flush()
        return generate.Schema(changed.name)


def faults_without(text):
    return schema_with(lambda comment: comment.replace(text, "")).faults


class GenerateTest(unittest.TestCase):

    def test_nothing_is_missing(self):
        schema = generate.Schema(DESCRIPTOR)
        generate.page(schema, TEMPLATE)
        self.assertEqual(schema.faults, [])

    def test_a_missing_word_is_told_with_its_field(self):
        for without, fault in (
            (" The ceiling of every unary call.", "Deadline.max_timeout: its comment does not say what it means"),
            (" Default: 60s.", "Deadline.max_timeout: say \"Required.\", or \"Default: \""),
            (" Range: 64 to 8192.", "Translation.max_message_bytes: say \"Range: \""),
            (" Stricter: true.", "Translation.boundary: say \"Stricter: \""),
            (" Required.", "RetryPolicy.max_attempts: say \"Required.\", or \"Default: \""),
            (" All calls of the channel.", "Breaker.scope: CHANNEL has no comment"),
        ):
            self.assertIn(fault, " ".join(faults_without(without)))

    def test_a_field_without_a_comment_misses_all(self):
        schema = schema_with(lambda comment: "")
        for fields in schema.fields.values():
            for field in fields:
                name = "%s.%s: " % (field.message, field.name)
                self.assertGreaterEqual(sum(fault.startswith(name) for fault in schema.faults), 2, name)

    def test_a_message_without_a_table_is_told(self):
        with open(TEMPLATE, encoding="utf-8") as file:
            text = file.read()
        with tempfile.NamedTemporaryFile("w", encoding="utf-8") as template:
            template.write(text.replace("<!-- table: Breaker -->", "<!-- table: Breakers -->"))
            template.flush()
            schema = generate.Schema(DESCRIPTOR)
            generate.page(schema, template.name)
        self.assertIn("there is no message Breakers", " ".join(schema.faults))
        self.assertIn("Breaker has 0 tables", " ".join(schema.faults))

    def test_a_range_that_is_none_stops_all(self):
        schema = schema_with(lambda comment: comment.replace("Range: 64 to 8192", "Range: 64 and more"))
        with self.assertRaisesRegex(ValueError, "Translation.max_message_bytes: this is no range: 64 and more"):
            generate.facts(schema)


if __name__ == "__main__":
    DESCRIPTOR, TEMPLATE = sys.argv[1:]
    unittest.main(argv=sys.argv[:1])
