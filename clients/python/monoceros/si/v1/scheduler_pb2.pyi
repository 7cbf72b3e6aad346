from monoceros.si.legacy.v0 import legacy_pb2 as _legacy_pb2
from monoceros.si.v1 import types_pb2 as _types_pb2
from google.protobuf import descriptor as _descriptor
from typing import ClassVar as _ClassVar

DESCRIPTOR: _descriptor.FileDescriptor
