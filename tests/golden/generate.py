#!/usr/bin/env python3
"""Writes the golden bytes of every message of every revision.

Each revision's own definitions (../wire/revisions/*.proto) are compiled by the protobuf project's own
compiler and encoded by its own runtime, so that nothing of Monoceros takes part. Run it after a
change of the definitions, in an environment with the package `grpcio-tools`:

    python tests/golden/generate.py

Every field of every message is filled by the same rule, which tests/wire/revisions/golden.rs repeats:
a string is the name of its field, a number is 1000 times the number of its field (a 32-bit one
negative), a truth is true, an enumeration has its last value, a map has one entry, a repeated
field has one element, a message that contains itself ends there, and of a oneof each arm has a
line of its own. A line is the name of the message (and arm), a space, the bytes in hexadecimal.
"""

import pathlib
import tempfile

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_tools import protoc

HERE = pathlib.Path(__file__).resolve().parent
REVISIONS = HERE.parent / "wire" / "revisions"


def value_of(field, above, arm):
    """The value of one field, outside of maps."""
    if field.message_type is not None:
        return filled(field.message_type, above, arm)
    if field.enum_type is not None:
        return field.enum_type.values[-1].number
    if field.type == field.TYPE_STRING:
        return field.name
    if field.type == field.TYPE_BOOL:
        return True
    if field.type == field.TYPE_INT32:
        return -1000 * field.number
    return 1000 * field.number


def filled(descriptor, above=(), arm=0):
    """A message with every field set."""
    message = message_factory.GetMessageClass(descriptor)()
    above = above + (descriptor.full_name,)
    for field in descriptor.fields:
        oneof = field.containing_oneof
        if oneof is not None and oneof.fields[min(arm, len(oneof.fields) - 1)].number != field.number:
            continue
        kind = field.message_type
        if kind is not None and kind.GetOptions().map_entry:
            key, value = kind.fields_by_name["key"], kind.fields_by_name["value"]
            if value.message_type is None:
                getattr(message, field.name)[key.name] = value_of(value, above, arm)
            else:
                inner = getattr(message, field.name)[key.name]
                inner.CopyFrom(value_of(value, above, arm))
        elif kind is not None and kind.full_name in above:
            continue
        elif field.is_repeated:
            getattr(message, field.name).append(value_of(field, above, arm))
        elif kind is not None:
            getattr(message, field.name).CopyFrom(value_of(field, above, arm))
        else:
            setattr(message, field.name, value_of(field, above, arm))
    return message


def arms(descriptor):
    """How many arms the oneof of a message has, if it has one."""
    return max([len(oneof.fields) for oneof in descriptor.oneofs], default=1)


def lines(revision):
    with tempfile.TemporaryDirectory() as directory:
        compiled = pathlib.Path(directory) / "descriptors"
        arguments = ["protoc", f"-I{REVISIONS}", f"--descriptor_set_out={compiled}", revision.name]
        assert protoc.main(arguments) == 0, revision
        files = descriptor_pb2.FileDescriptorSet.FromString(compiled.read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    for message in sorted(files.file[0].message_type, key=lambda message: message.name):
        descriptor = pool.FindMessageTypeByName(f"si.v1.{message.name}")
        for arm in range(arms(descriptor)):
            name = message.name if arm == 0 else f"{message.name}#{arm}"
            encoded = filled(descriptor, arm=arm).SerializeToString(deterministic=True)
            yield f"{name} {encoded.hex()}".rstrip()


def main():
    for revision in sorted(REVISIONS.glob("*.proto")):
        text = "\n".join(lines(revision)) + "\n"
        (HERE / f"{revision.stem}.hex").write_text(text)


if __name__ == "__main__":
    main()
