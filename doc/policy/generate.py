#!/usr/bin/env python3
# doc/policy/generate.py - what is made of the comments of policy.proto.
#
#   generate.py DESCRIPTOR page TEMPLATE     doc/policy.md: TEMPLATE, with tables for its <!-- table: Message -->
#   generate.py DESCRIPTOR facts             rows of C, which test/doc/policy_facts_test.c holds against the code
#   generate.py DESCRIPTOR schema            doc/policy.schema.json: a JSON Schema (draft 7), for editors
#
# DESCRIPTOR is what `protoc --include_source_info --descriptor_set_out` writes. Fails, and says all that it misses,
# when a field has no meaning, no default, no range or no word on what is stricter, or when a message has no table.
#
# SPDX-License-Identifier: Apache-2.0
import json
import re
import sys
from decimal import Decimal

from google.protobuf import descriptor_pb2

FIELD = descriptor_pb2.FieldDescriptorProto
DURATION = ".google.protobuf.Duration"
STRUCT = ".google.protobuf.Struct"
CODE = ".weir.v1.StatusCode"
MAX_UINT32 = 4294967295
STRICTER = ("less", "more", "true", "false", "a subset", "the earlier of", "the same", "the same for each",
            "not enforced")

# A fact begins at the start of a line, or behind a full stop.
FACT = re.compile(r"(?:(?<=^)|(?<=[.] )|(?<=\n))(Default|Range|Warning|Stricter|Source): ")
FIRST_FACT = re.compile(r"^(Required[.]|(Default|Range|Warning|Stricter|Source): )", re.MULTILINE)


class Field:
    """A field, and what its comment says."""

    def __init__(self, message, proto, comment):
        self.message = message
        self.proto = proto
        self.name = proto.name
        self.key = proto.json_name
        self.listed = proto.label == FIELD.LABEL_REPEATED
        first = FIRST_FACT.search(comment)
        facts = comment[first.start():] if first else ""
        self.meaning = " ".join((comment[:first.start()] if first else comment).split())
        self.required = facts.startswith("Required.")
        parts = FACT.split(facts)
        self.ceiling = False
        self.facts = {}
        for name, value in zip(parts[1::2], parts[2::2]):
            value = " ".join(value.split())
            if value.endswith(" Ceiling."):
                self.ceiling = True
                value = value[:-len(" Ceiling.")]
            self.facts[name] = value[:-1] if value.endswith(".") else value + "?"

    def is_a(self, *types):
        return self.proto.type in types

    @property
    def is_duration(self):
        return self.proto.type_name == DURATION

    @property
    def is_object(self):
        """Whether it has fields of its own that a document names."""
        return self.is_a(FIELD.TYPE_MESSAGE) and self.proto.type_name.startswith(".weir.") and not self.is_map

    @property
    def is_map(self):
        return self.proto.type_name.endswith("Entry")

    @property
    def has_range(self):
        """Whether the type leaves something to be said."""
        return not (self.is_a(FIELD.TYPE_BOOL) or self.is_object or
                    self.is_a(FIELD.TYPE_ENUM) and self.proto.type_name != CODE)

    @property
    def kind(self):
        return self.proto.type_name.rsplit(".", 1)[-1]

    def json_type(self):
        if self.is_map:
            return "object, code to code"
        """Of one value, not of a list."""
        name = {FIELD.TYPE_BOOL: "boolean", FIELD.TYPE_UINT32: "integer", FIELD.TYPE_DOUBLE: "number",
                FIELD.TYPE_STRING: "string", FIELD.TYPE_MESSAGE: "object", FIELD.TYPE_ENUM: "name"}[self.proto.type]
        if self.is_duration:
            name = "duration"
        elif self.proto.type_name == CODE:
            name = "code"
        return name

    def stricter(self):
        """What is said of strictness, and, where it is an order of names, the names."""
        names = re.findall(r"`(\w+)`", self.facts.get("Stricter", ""))
        words = self.facts.get("Stricter", "").split(";")[0]
        return (words.split(" `")[0], names) if names else (words, [])

    def default_json(self):
        """The default as JSON, or None when it is none that JSON has."""
        default = self.facts.get("Default", "")
        word = default.split(",")[0]
        if default == "empty":
            return "[]" if self.listed else '""'
        if self.is_duration and re.fullmatch(r"[0-9.]+s", word):
            return '"%s"' % word
        if self.is_a(FIELD.TYPE_UINT32, FIELD.TYPE_DOUBLE) and re.fullmatch(r"[0-9.]+", word):
            return word
        if self.is_a(FIELD.TYPE_BOOL) and word in ("true", "false"):
            return word
        if self.is_a(FIELD.TYPE_STRING) and re.fullmatch(r"[a-z]+", word) and word != "none":
            return '"%s"' % word
        if self.is_a(FIELD.TYPE_ENUM) and re.fullmatch(r"[A-Z]+", word):
            return '"%s"' % word
        return None


class Schema:
    """The messages that a document is made of, by name, and all faults of their comments."""

    def __init__(self, path):
        with open(path, "rb") as file:
            descriptor = descriptor_pb2.FileDescriptorSet.FromString(file.read()).file[-1]
        self.comments = {tuple(place.path): place.leading_comments for place in descriptor.source_code_info.location}
        self.fields = {}
        self.meanings = {}
        self.enums = {}
        self.faults = []
        self.codes = [value.name for value in descriptor.enum_type[0].value if value.number != 0]  # all but OK
        for i, message in enumerate(descriptor.message_type):
            self.read_message((4, i), message)
        for message, fields in self.fields.items():
            if not self.meanings[message]:
                self.faults.append("%s: its comment does not say what it means" % message)
            for field in fields:
                self.check(field)

    def read_message(self, path, message):
        self.meanings[message.name] = " ".join(self.comment(path).split())
        self.fields[message.name] = [
            Field(message.name, field, self.comment(path + (2, i))) for i, field in enumerate(message.field)
        ]
        for i, enum in enumerate(message.enum_type):
            self.enums[message.name + "." + enum.name] = [
                (value.name, " ".join(self.comment(path + (4, i, 2, j)).split())) for j, value in enumerate(enum.value)
            ]

    def comment(self, path):
        return "\n".join(line.strip() for line in self.comments.get(path, "").strip().split("\n"))

    def check(self, field):
        def fault(what):
            self.faults.append("%s.%s: %s" % (field.message, field.name, what))

        if not field.meaning:
            fault("its comment does not say what it means")
        if field.required == ("Default" in field.facts):
            fault("say \"Required.\", or \"Default: \"")
        if field.has_range and "Range" not in field.facts:
            fault("say \"Range: \"")
        if not field.has_range and not field.is_object and "Range" in field.facts:
            fault("its type says the range")
        if not field.is_object and field.stricter()[0] not in STRICTER:
            fault("say \"Stricter: \", and one of %s" % ", ".join(STRICTER))
        for name, value in field.facts.items():
            if value.endswith("?"):
                fault("end \"%s: \" with a full stop" % name)
        for value, meaning in self.values(field):
            if not meaning:
                fault("%s has no comment" % value)

    def values(self, field):
        return self.enums.get("%s.%s" % (field.message, field.kind), [])

    def field(self, message, key):
        return next(field for field in self.fields[message] if field.key == key)


# ---- the page ----


def cell(text):
    return text.replace("|", "\\|")


def shown_default(field):
    if field.required:
        return "required"
    default = field.facts["Default"]
    literal = field.default_json()
    if literal is None or default == "empty":
        return default
    return "`%s`%s" % (literal, default[len(default.split(",")[0]):])


def shown_range(schema, field):
    if schema.values(field):
        names = ["`%s`" % value for value, _ in schema.values(field)]
        return "%s or %s, in any case" % (", ".join(names[:-1]), names[-1])
    return field.facts.get("Range", "")


def shown_stricter(field):
    return field.facts.get("Stricter", "") + (", ceiling" if field.ceiling else "")


def shown_type(field):
    text = "list of %ss" % field.json_type() if field.listed and not field.is_map else field.json_type()
    if not field.is_object or field.kind == "Policy":
        return text
    in_method = {"Name": "methodconfigname", "RetryPolicy": "methodconfigretrypolicy"}
    return "[%s](#%s)" % (text, in_method.get(field.kind, field.kind.lower()))


def shown_meaning(schema, field):
    text = field.meaning
    for value, meaning in schema.values(field):
        text += " `%s`: %s" % (value, meaning[0].lower() + meaning[1:].rstrip("."))
        text += "." if value == schema.values(field)[-1][0] else ";"
    if "Warning" in field.facts:
        text += " *Warned of:* %s." % field.facts["Warning"]
    return text


def table(schema, message):
    """What a message means, and what its fields do. Columns that would be empty are left out."""
    columns = ["key", "type", "default", "range", "stricter", "source", "meaning"]
    rows = []
    for field in schema.fields[message]:
        rows.append(["`%s`" % field.key, shown_type(field), shown_default(field), shown_range(schema, field),
                     shown_stricter(field), field.facts.get("Source", ""), shown_meaning(schema, field)])
    kept = [i for i in range(len(columns)) if any(row[i] for row in rows)]
    lines = [schema.meanings[message], "", "| %s |" % " | ".join(columns[i] for i in kept)]
    lines.append("| %s |" % " | ".join("---" for _ in kept))
    lines += ["| %s |" % " | ".join(cell(row[i]) for i in kept) for row in rows]
    return [re.sub(r"\|  (?=\|)", "| ", line) for line in lines]


def page(schema, template_path):
    mark = re.compile(r"<!-- table: (\w+) -->$")
    shown = []
    lines = ["<!-- Made by `make docs` of proto/weir/v1/policy.proto and doc/policy/policy.md.in. -->"]
    with open(template_path, encoding="utf-8") as file:
        for line in file.read().split("\n"):
            match = mark.match(line)
            if match is None:
                lines.append(line)
            elif match.group(1) not in schema.fields:
                schema.faults.append("%s: there is no message %s" % (template_path, match.group(1)))
            else:
                shown.append(match.group(1))
                lines += table(schema, match.group(1))
    for message in schema.fields:
        if shown.count(message) != 1:
            schema.faults.append("%s: %s has %d tables" % (template_path, message, shown.count(message)))
    return "\n".join(lines)


# ---- the facts ----


class Bounds:
    """The outermost numbers or durations that a range takes, and the next ones, which it does not take."""

    def __init__(self, schema, field):
        self.schema = schema
        self.owner = field
        self.step = Decimal("0.000000001") if field.is_duration else Decimal(1)
        if field.is_a(FIELD.TYPE_DOUBLE):
            self.step = Decimal("0.000001")
        self.lows = []  # whether the bound is a lower one, and so on, for each
        self.accepted = []
        self.refused = []
        self.included = []
        self.ends = False
        for part in field.facts["Range"].split(";")[0].split(", "):
            self.read(part)
        if field.is_a(FIELD.TYPE_UINT32) and not self.ends:
            self.bound(MAX_UINT32, True, 1)

    def read(self, part):
        match = re.fullmatch(r"(above|at least|at most|below) (.+)", part)
        if match is not None:
            self.bound(self.value(match.group(2)), match.group(1).startswith("at"),
                       -1 if match.group(1) in ("above", "at least") else 1)
            return
        match = re.fullmatch(r"([0-9.]+s?) to ([0-9.]+s?)", part)
        if match is None:
            raise ValueError("%s.%s: this is no range: %s" % (self.owner.message, self.owner.name, part))
        self.bound(self.value(match.group(1)), True, -1)
        self.bound(self.value(match.group(2)), True, 1)

    def value(self, text):
        """Of "0.5", "0.5s", "`openFor`" (its default) and "0.001s times `windowBuckets`"."""
        product = Decimal(1)
        for factor in text.split(" times "):
            if factor.startswith("`"):
                factor = self.schema.field(self.owner.message, factor.strip("`")).default_json().strip('"')
            product *= Decimal(factor[:-1] if factor.endswith("s") else factor)
        return product

    def bound(self, value, included, outwards):
        beyond = outwards * self.step
        self.ends = self.ends or outwards > 0
        self.lows.append(outwards < 0)
        if included:
            self.included.append(Decimal(value))
        self.accepted.append(Decimal(value) if included else value - beyond)
        self.refused.append(value + beyond if included else Decimal(value))

    def text(self, value):
        plain = format(value.normalize() if value != 0 else Decimal(0), "f")
        return '"%ss"' % plain if self.owner.is_duration else plain


def sample(schema, field):
    """A value that is in a required field's range."""
    if field.proto.type_name == CODE:
        return '["UNAVAILABLE"]'
    return Bounds(schema, field).text(Bounds(schema, field).accepted[0])


def holders(schema, message):
    """The (message, field) pairs whose field is `message`, but for the schema's root in itself."""
    return [(name, field) for name, fields in schema.fields.items() for field in fields
            if field.is_object and field.kind == message and message != "Policy"]


def documents(schema, message, members):
    """Documents in which an object of that message has these members, {key: JSON}: one for each place of it."""
    given = {field.key: sample(schema, field) for field in schema.fields[message] if field.required}
    if message == "MethodConfig":
        given["name"] = '[{"service": "a.B"}]'
    given.update(members)
    text = "{%s}" % ", ".join('"%s": %s' % member for member in given.items())
    if message == "Policy":
        return [text]
    found = []
    for holder, field in holders(schema, message):
        found += documents(schema, holder, {field.key: "[%s]" % text if field.listed else text})
    return found


def c_string(text):
    return "NULL" if text is None else json.dumps(text)


def c_bool(value):
    return "true" if value else "false"


def facts(schema):
    lines = ["/* Made from the comments of policy.proto by doc/policy/generate.py. */"]
    for message, fields in schema.fields.items():
        for field in fields:
            trials = []
            numeric = field.is_duration or field.is_a(FIELD.TYPE_UINT32, FIELD.TYPE_DOUBLE)
            if numeric:
                bounds = Bounds(schema, field)
                for verdict, values in (("ACCEPTED", bounds.accepted), ("REFUSED", bounds.refused)):
                    for value in values:
                        for document in documents(schema, message, {field.key: bounds.text(value)}):
                            trials.append("{%s, %s}" % (verdict, c_string(document)))
            pairs = []
            default = field.default_json()
            if default is not None and default != "[]":
                stated = documents(schema, message, {field.key: default})
                unstated = documents(schema, message, {})
                pairs = ["{%s, %s}" % (c_string(one), c_string(other)) for one, other in zip(stated, unstated)]
            stricter, order = field.stricter()
            lines += [
                "{.message = %s, .field = %s," % (c_string(message), c_string(field.name)),
                " .has_default = %s," % c_bool(default is not None),
                " .warned_of = %s," % c_bool("Warning" in field.facts),
                " .stricter = %s, .ceiling = %s," % (c_string(stricter or None), c_bool(field.ceiling)),
                " .order = {%s}," % ", ".join(list(map(c_string, order)) + ["NULL"]),
                " .defaults = {%s}," % ", ".join(pairs + ["{NULL, NULL}"]),
                " .trials = {%s}}," % ", ".join(trials + ["{NONE, NULL}"]),
            ]
    return "\n".join(lines) + "\n"


# ---- the JSON schema ----


def duration_schema(schema, field):
    """A pattern can tell 0s from more, and no other length from another."""
    zero = Bounds(schema, field).refused[0] == 0
    return {"type": "string", "pattern": "^%s[0-9]{1,12}([.][0-9]{1,9})?s$" % ("(?!0+([.]0+)?s$)" if zero else "")}


def number_schema(schema, field, enforced):
    bounds = Bounds(schema, field)
    whole = field.is_a(FIELD.TYPE_UINT32)
    made = {"type": "integer" if whole else "number"}
    for low, value in zip(bounds.lows, bounds.accepted):
        word = "minimum" if low else "maximum"
        if whole:
            made[word] = int(value)
        elif value in bounds.included:
            made[word] = float(value)
        else:
            made["exclusive" + word.capitalize()] = float(bounds.refused[bounds.accepted.index(value)])
    if enforced and field.name == "max_attempts":
        made["minimum"] = 1  # a ban on retries
    return made


def value_schema(schema, field, enforced):
    """Of one value, not of a list."""
    if field.is_object:
        return {"$ref": "#/definitions/%s%s" % (field.kind, "Enforced" if enforced else "")}
    if field.is_map:
        codes = {"enum": schema.codes}
        return {"type": "object", "propertyNames": codes, "additionalProperties": codes}
    if field.is_duration:
        return duration_schema(schema, field)
    if field.is_a(FIELD.TYPE_UINT32, FIELD.TYPE_DOUBLE):
        return number_schema(schema, field, enforced)
    if field.proto.type_name == CODE:
        return {"enum": schema.codes + list(range(1, len(schema.codes) + 1))}
    if field.is_a(FIELD.TYPE_ENUM):
        return {"enum": [value for value, _ in schema.values(field)]}
    return {"type": field.json_type()}


def field_schema(schema, field, enforced):
    made = value_schema(schema, field, enforced or field.name == "enforce")
    if field.listed and not field.is_map:
        made = {"type": "array", "items": made}
        if field.required:
            made["minItems"] = 1
    about = {"description": field.meaning}
    default = field.default_json()
    if default is not None:
        about["default"] = json.loads(default)
    if "$ref" in made:
        made = {"allOf": [made]}  # draft 7 reads nothing beside a $ref
    about.update(made)
    return about


def message_schema(schema, message, enforced):
    fields = [field for field in schema.fields[message] if not (enforced and field.name == "enforce")]
    made = {"description": schema.meanings[message], "type": "object",
            "properties": {field.key: field_schema(schema, field, enforced) for field in fields},
            "additionalProperties": False}
    required = [field.key for field in fields if field.required]
    if required and not (enforced and message == "RetryPolicy"):
        made["required"] = required
    return made


def json_schema(schema):
    made = {"$schema": "http://json-schema.org/draft-07/schema#", "title": "A weir policy"}
    made["allOf"] = [{"$ref": "#/definitions/Policy"}]
    made["definitions"] = {}
    for message in schema.fields:
        made["definitions"][message] = message_schema(schema, message, False)
        made["definitions"][message + "Enforced"] = message_schema(schema, message, True)
    return json.dumps(made, indent=1, ensure_ascii=False) + "\n"


def main():
    schema = Schema(sys.argv[1])
    text = ""
    if sys.argv[2] == "page":
        text = page(schema, sys.argv[3])
    elif not schema.faults:
        text = {"facts": facts, "schema": json_schema}[sys.argv[2]](schema)
    for fault in schema.faults:
        print(fault, file=sys.stderr)
    if schema.faults:
        return 1
    sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
