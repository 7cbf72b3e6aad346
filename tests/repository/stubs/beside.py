"""Ours beside the published interface in one process: its definitions (a file of this repository with
the same names and numbers), our stubs, and a service that both speak to.

Arguments: the folder of our texts, the file with the published ones, a folder for stubs, the service.
Prints one line for each thing that was seen to hold.
"""

import importlib
import pathlib
import shutil
import sys

import grpc
from grpc_tools import protoc


def make(build, include, *names):
    outputs = [f"--python_out={build}", f"--grpc_python_out={build}"]
    assert protoc.main(["protoc", f"-I{include}", *outputs, *map(str, names)]) == 0, names


def register(stubs, messages, channel, rm_id):
    """Registers, and says by which path."""
    calls = []

    class Noting(grpc.UnaryUnaryClientInterceptor):
        def intercept_unary_unary(self, continuation, details, request):
            calls.append(details.method)
            return continuation(details, request)

    scheduler = stubs.SchedulerStub(grpc.intercept_channel(channel, Noting()))
    request = messages.RegisterResourceManagerRequest(rmID=rm_id, policyGroup="queues")
    _, call = scheduler.RegisterResourceManager.with_call(request, timeout=30)
    assert dict(call.initial_metadata())["x-si-registered"] == "new"
    print("registered by", calls[0], flush=True)


def main(texts, published, build, address):
    texts, published, build = pathlib.Path(texts), pathlib.Path(published), pathlib.Path(build)
    shutil.rmtree(build, ignore_errors=True)
    build.mkdir(parents=True)
    make(build, texts, *(path.relative_to(texts) for path in sorted(texts.rglob("*.proto"))))
    shutil.copy(published, build / "si.proto")
    shutil.copy(published, build / "again.proto")
    make(build, build, "si.proto")
    make(build, build, "again.proto")
    sys.path.insert(0, str(build))
    # The folder is on the path of modules since before it was made: its absence is remembered.
    importlib.invalidate_caches()

    theirs = importlib.import_module("si_pb2")
    ours = importlib.import_module("monoceros.si.v1.types_pb2")
    for module in ("si.legacy.v0.legacy", "v1.admin", "v1.callback"):
        importlib.import_module(f"monoceros.{module}_pb2")
    print("both are loaded", flush=True)
    # The reason for separate packages: two texts with the same names cannot be loaded.
    try:
        importlib.import_module("again_pb2")
    except TypeError:
        print("the same names twice are refused", flush=True)

    resource = {"vcore": theirs.Quantity(value=500)}
    allocation = theirs.Allocation(
        allocationKey="key", applicationID="app", priority=-1,
        resourcePerAlloc=theirs.Resource(resources=resource),
    )
    request = theirs.AllocationRequest(allocations=[allocation], rmID="rm")
    moved = ours.AllocationRequest.FromString(request.SerializeToString())
    assert moved.allocations[0].resourcePerAlloc.resources["vcore"].value == 500
    assert moved.SerializeToString() == request.SerializeToString()
    print("bytes are the same", flush=True)

    with grpc.insecure_channel(address) as channel:
        register(importlib.import_module("si_pb2_grpc"), theirs, channel, "theirs")
        register(importlib.import_module("monoceros.si.v1.scheduler_pb2_grpc"), ours, channel, "ours")


main(*sys.argv[1:])
