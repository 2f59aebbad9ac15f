"""A server on Python's gRPC and Python's protobuf, weir's second opinion on google.rpc.Status.

    status_peer.py          prints the port that it listens on, and ends when its standard input does

/peer.Status/Fail takes "CASE CODE" and fails with that code, the case's details beside it.
/peer.Status/Check takes the details that weir made of them, and in its metadata what they were made with:
case, code, message, and each name of a type that is kept. It answers "ok", or what is wrong.

The messages of google.rpc are described here, since Debian has no Python package of them.

SPDX-License-Identifier: Apache-2.0
"""

import sys
from concurrent import futures

import grpc
from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, duration_pb2, message, message_factory

FIELD = descriptor_pb2.FieldDescriptorProto

# Each message: its fields, as (number, name, type, "" or "repeated"). A name with a dot in front is a message's.
MESSAGES = {
    "Status": [
        (1, "code", "int32", ""),
        (2, "message", "string", ""),
        (3, "details", ".google.protobuf.Any", "repeated"),
    ],
    "RetryInfo": [(1, "retry_delay", ".google.protobuf.Duration", "")],
    "DebugInfo": [(1, "stack_entries", "string", "repeated"), (2, "detail", "string", "")],
    "ErrorInfo": [
        (1, "reason", "string", ""),
        (2, "domain", "string", ""),
        (3, "metadata", ".google.rpc.ErrorInfo.MetadataEntry", "repeated"),
    ],
    "ErrorInfo.MetadataEntry": [(1, "key", "string", ""), (2, "value", "string", "")],
    "BadRequest": [(1, "field_violations", ".google.rpc.BadRequest.FieldViolation", "repeated")],
    "BadRequest.FieldViolation": [(1, "field", "string", ""), (2, "description", "string", "")],
    "LocalizedMessage": [(1, "locale", "string", ""), (2, "message", "string", "")],
}


def describe(target, fields):
    for number, name, kind, label in fields:
        field = target.field.add(name=name, number=number)
        field.label = FIELD.LABEL_REPEATED if label else FIELD.LABEL_OPTIONAL
        if kind.startswith("."):
            field.type = FIELD.TYPE_MESSAGE
            field.type_name = kind
        else:
            field.type = FIELD.Type.Value("TYPE_" + kind.upper())


def make_classes():
    file = descriptor_pb2.FileDescriptorProto(name="status_peer.proto", package="google.rpc", syntax="proto3")
    file.dependency.extend([any_pb2.DESCRIPTOR.name, duration_pb2.DESCRIPTOR.name])
    described = {}
    for name, fields in MESSAGES.items():
        outer, _, inner = name.rpartition(".")
        described[name] = (described[outer].nested_type if outer else file.message_type).add(name=inner)
        describe(described[name], fields)
        described[name].options.map_entry = inner.endswith("Entry")
    pool = descriptor_pool.Default()
    pool.Add(file)
    factory = message_factory.MessageFactory(pool)
    return {
        name: factory.GetPrototype(pool.FindMessageTypeByName("google.rpc." + name))
        for name in MESSAGES
        if "." not in name
    }


RPC = make_classes()
SECRET = "hunter2"


def retry(seconds=1, nanos=500000000):
    return RPC["RetryInfo"](retry_delay=duration_pb2.Duration(seconds=seconds, nanos=nanos))


def debug():
    return RPC["DebugInfo"](stack_entries=["at db.connect", "password=" + SECRET], detail=SECRET)


def error():
    return RPC["ErrorInfo"](reason="STOCK", domain="shop.internal", metadata={"b": SECRET, "a": "1", "": ""})


def bad_request():
    result = RPC["BadRequest"]()
    result.field_violations.add(field="amount", description="negative")
    result.field_violations.add()
    result.field_violations.add(field="id")
    return result


def localized(text="Zu wenig \u00fcbrig \U0001f9f6"):
    return RPC["LocalizedMessage"](locale="de", message=text)


def packed(detail, prefix="type.googleapis.com/"):
    result = any_pb2.Any()
    result.Pack(detail, prefix, deterministic=True)
    return result


def with_unknown_fields(detail):
    """A detail as a newer version of its type has it, in an Any of a newer version of Any."""
    result = packed(detail)
    result.value += b"\x9a\x06\x03new"
    return any_pb2.Any.FromString(result.SerializeToString() + b"\x9a\x06\x07" + SECRET.encode())


# What each case sends: the details of its status.
CASES = {
    "no_details": [],
    "each_type": [packed(detail) for detail in (debug(), retry(), error(), bad_request(), localized())],
    "several_of_a_type": [packed(d) for d in (retry(3, 0), localized("b"), debug(), retry(1, 0), localized("a"))],
    "empty_values": [packed(RPC[name]()) for name in ("RetryInfo", "DebugInfo", "BadRequest")],
    "largest_numbers": [packed(retry(315576000000, 999999999)), packed(retry(-315576000000, -999999999))],
    "none_of_a_kept_type": [packed(debug()), packed(error())],
    "other_prefixes": [packed(retry(), SECRET + ".internal/types"), packed(bad_request(), ""), packed(debug(), "x/")],
    "unknown_fields": [with_unknown_fields(detail) for detail in (debug(), retry(), bad_request())],
    "status_within": [packed(RPC["Status"](code=3, message=SECRET, details=[packed(retry())])), packed(retry())],
    "large": [packed(localized("\u00e4" * 1900))],
    "too_large": [packed(localized("\u00e4" * 2100)), packed(retry())],
}

# What is no google.rpc.Status at all.
BROKEN = {
    "cut_short": RPC["Status"](code=3, details=[packed(debug()), packed(retry())]).SerializeToString()[:-1],
    "no_message": b"\xff\xff\xff",
    "not_utf8": RPC["Status"](details=[packed(retry())]).SerializeToString() + b"\x12\x02\xc3\x28",
}


def details_of(case, code):
    if case in BROKEN:
        return BROKEN[case]
    status = RPC["Status"](code=code, message="password=" + SECRET, details=CASES[case])
    return status.SerializeToString(deterministic=True)


def fail(request, context):
    case, code = request.decode().split()
    context.set_trailing_metadata((("grpc-status-details-bin", details_of(case, int(code))),))
    context.abort(next(c for c in grpc.StatusCode if c.value[0] == int(code)), "password=" + SECRET)


def check(request, context):
    told = context.invocation_metadata()
    words = {key: value for key, value in told}
    kept_types = {value for key, value in told if key == "kept"}
    kept = [d for d in CASES[words["case"]] if d.TypeName() in kept_types]
    wrong = differences(request, int(words["code"]), words["message"], kept)
    return wrong.encode() if wrong else b"ok"


def differences(made, code, text, kept):
    try:
        status = RPC["Status"].FromString(made)
    except message.DecodeError as fault:
        return "it can't be read: %s" % fault
    if status.code != code or status.message != text:
        return "it says %d %r" % (status.code, status.message)
    if [d.type_url for d in status.details] != ["type.googleapis.com/" + d.TypeName() for d in kept]:
        return "it has %r" % [d.type_url for d in status.details]
    for detail, sent in zip(status.details, kept):
        read = RPC[detail.TypeName().rpartition(".")[2]]()
        if not detail.Unpack(read) or detail.value != sent.value or read != type(read).FromString(sent.value):
            return "%s has changed" % detail.TypeName()
    own = RPC["Status"](code=code, message=text)
    for sent in kept:
        own.details.add(type_url="type.googleapis.com/" + sent.TypeName(), value=sent.value)
    own_bytes = own.SerializeToString(deterministic=True)
    return "" if made == own_bytes else "Python writes %r, weir %r" % (own_bytes, made)


def main():
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=2))
    handlers = {"Fail": fail, "Check": check}
    server.add_generic_rpc_handlers(
        (
            grpc.method_handlers_generic_handler(
                "peer.Status",
                {name: grpc.unary_unary_rpc_method_handler(handler) for name, handler in handlers.items()},
            ),
        )
    )
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    sys.stdin.buffer.read()
    server.stop(None).wait()


if __name__ == "__main__":
    main()
