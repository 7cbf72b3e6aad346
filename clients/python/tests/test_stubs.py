"""The committed stubs match the texts in proto/, whose compiled form the test of the repository writes to a file."""

from __future__ import annotations

import importlib
import os
import pathlib
import unittest
from typing import Any

from google.protobuf import descriptor_pb2

import monoceros


def plain(file: Any) -> Any:
    """Removes from a file the parts that compilers write differently."""
    file.ClearField("source_code_info")
    messages = list(file.message_type)
    while messages:
        message = messages.pop()
        for field in message.field:
            field.ClearField("json_name")
        messages += message.nested_type
    return file


class Stubs(unittest.TestCase):
    def test_stubs_match_the_texts(self) -> None:
        path = os.environ.get("MONOCEROS_DESCRIPTORS")
        if path is None:
            self.skipTest("MONOCEROS_DESCRIPTORS does not name a file with the compiled texts")
        texts = descriptor_pb2.FileDescriptorSet.FromString(pathlib.Path(path).read_bytes())
        folder = pathlib.Path(monoceros.__file__).parent
        known = {str(one.relative_to(folder.parent)) for one in folder.rglob("*_pb2.py")}
        for text in texts.file:
            # Other files have no source text: services under their other names.
            if not text.options.go_package:
                continue
            name = text.name.replace(".proto", "_pb2.py")
            self.assertIn(name, known, "run generate.sh")
            known.remove(name)
            stub = descriptor_pb2.FileDescriptorProto()
            importlib.import_module(name[:-3].replace("/", ".")).DESCRIPTOR.CopyToProto(stub)
            self.assertEqual(plain(stub), plain(text), f"the stubs of {text.name} are old: run generate.sh")
        self.assertEqual(known, set(), "no text any more: run generate.sh")
