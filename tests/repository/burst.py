"""Sends a message for each of very many asks with stubs alone, and reads the answers meanwhile.

Prints how many were answered. The asks are for an application that is not there, so each is rejected.
"""

import sys

import grpc

from monoceros.si.v1 import scheduler_pb2_grpc as si_service
from monoceros.si.v1 import types_pb2 as si


def main():
    address, messages = sys.argv[1], int(sys.argv[2])

    def ask(number):
        wanted = si.Resource(resources={"vcore": si.Quantity(value=1_000)})
        ask = si.Allocation(
            allocationKey=f"k{number}", applicationID="nobody", resourcePerAlloc=wanted
        )
        return si.AllocationRequest(allocations=[ask])

    with grpc.insecure_channel(address) as channel:
        scheduler = si_service.SchedulerStub(channel)
        scheduler.RegisterResourceManager(
            si.RegisterResourceManagerRequest(rmID="burst", version="test", policyGroup="queues"), timeout=30
        )
        # gRPC takes the requests from its own thread, as fast as it can send them, and closes its
        # side after the last. The stream ends when all are answered.
        replies = scheduler.UpdateAllocation(
            (ask(number) for number in range(messages)),
            metadata=(("x-si-rm-id", "burst"),),
            timeout=120,
        )
        answered = {
            rejected.allocationKey for reply in replies for rejected in reply.rejectedAllocations
        }
    print(len(answered))


main()
