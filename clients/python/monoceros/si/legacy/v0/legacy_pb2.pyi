from monoceros.si.v1 import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class UpdateRequest(_message.Message):
    __slots__ = ("asks", "releases", "newSchedulableNodes", "updatedNodes", "utilizationReports", "rmID", "newApplications", "removeApplications", "clientSeq")
    ASKS_FIELD_NUMBER: _ClassVar[int]
    RELEASES_FIELD_NUMBER: _ClassVar[int]
    NEWSCHEDULABLENODES_FIELD_NUMBER: _ClassVar[int]
    UPDATEDNODES_FIELD_NUMBER: _ClassVar[int]
    UTILIZATIONREPORTS_FIELD_NUMBER: _ClassVar[int]
    RMID_FIELD_NUMBER: _ClassVar[int]
    NEWAPPLICATIONS_FIELD_NUMBER: _ClassVar[int]
    REMOVEAPPLICATIONS_FIELD_NUMBER: _ClassVar[int]
    CLIENTSEQ_FIELD_NUMBER: _ClassVar[int]
    asks: _containers.RepeatedCompositeFieldContainer[AllocationAsk]
    releases: AllocationReleasesRequest
    newSchedulableNodes: _containers.RepeatedCompositeFieldContainer[NewNodeInfo]
    updatedNodes: _containers.RepeatedCompositeFieldContainer[UpdateNodeInfo]
    utilizationReports: _containers.RepeatedCompositeFieldContainer[_types_pb2.UtilizationReport]
    rmID: str
    newApplications: _containers.RepeatedCompositeFieldContainer[_types_pb2.AddApplicationRequest]
    removeApplications: _containers.RepeatedCompositeFieldContainer[_types_pb2.RemoveApplicationRequest]
    clientSeq: int
    def __init__(self, asks: _Optional[_Iterable[_Union[AllocationAsk, _Mapping]]] = ..., releases: _Optional[_Union[AllocationReleasesRequest, _Mapping]] = ..., newSchedulableNodes: _Optional[_Iterable[_Union[NewNodeInfo, _Mapping]]] = ..., updatedNodes: _Optional[_Iterable[_Union[UpdateNodeInfo, _Mapping]]] = ..., utilizationReports: _Optional[_Iterable[_Union[_types_pb2.UtilizationReport, _Mapping]]] = ..., rmID: _Optional[str] = ..., newApplications: _Optional[_Iterable[_Union[_types_pb2.AddApplicationRequest, _Mapping]]] = ..., removeApplications: _Optional[_Iterable[_Union[_types_pb2.RemoveApplicationRequest, _Mapping]]] = ..., clientSeq: _Optional[int] = ...) -> None: ...

class UpdateResponse(_message.Message):
    __slots__ = ("action", "newAllocations", "releasedAllocations", "releasedAllocationAsks", "rejectedAllocations", "nodeRecommendations", "rejectedApplications", "acceptedApplications", "updatedApplications", "rejectedNodes", "acceptedNodes", "takenSeq")
    class ActionFromScheduler(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        NOACTION: _ClassVar[UpdateResponse.ActionFromScheduler]
        RESYNC: _ClassVar[UpdateResponse.ActionFromScheduler]
    NOACTION: UpdateResponse.ActionFromScheduler
    RESYNC: UpdateResponse.ActionFromScheduler
    ACTION_FIELD_NUMBER: _ClassVar[int]
    NEWALLOCATIONS_FIELD_NUMBER: _ClassVar[int]
    RELEASEDALLOCATIONS_FIELD_NUMBER: _ClassVar[int]
    RELEASEDALLOCATIONASKS_FIELD_NUMBER: _ClassVar[int]
    REJECTEDALLOCATIONS_FIELD_NUMBER: _ClassVar[int]
    NODERECOMMENDATIONS_FIELD_NUMBER: _ClassVar[int]
    REJECTEDAPPLICATIONS_FIELD_NUMBER: _ClassVar[int]
    ACCEPTEDAPPLICATIONS_FIELD_NUMBER: _ClassVar[int]
    UPDATEDAPPLICATIONS_FIELD_NUMBER: _ClassVar[int]
    REJECTEDNODES_FIELD_NUMBER: _ClassVar[int]
    ACCEPTEDNODES_FIELD_NUMBER: _ClassVar[int]
    TAKENSEQ_FIELD_NUMBER: _ClassVar[int]
    action: UpdateResponse.ActionFromScheduler
    newAllocations: _containers.RepeatedCompositeFieldContainer[Allocation]
    releasedAllocations: _containers.RepeatedCompositeFieldContainer[AllocationRelease]
    releasedAllocationAsks: _containers.RepeatedCompositeFieldContainer[AllocationAskRelease]
    rejectedAllocations: _containers.RepeatedCompositeFieldContainer[_types_pb2.RejectedAllocationAsk]
    nodeRecommendations: _containers.RepeatedCompositeFieldContainer[_types_pb2.NodeRecommendation]
    rejectedApplications: _containers.RepeatedCompositeFieldContainer[_types_pb2.RejectedApplication]
    acceptedApplications: _containers.RepeatedCompositeFieldContainer[_types_pb2.AcceptedApplication]
    updatedApplications: _containers.RepeatedCompositeFieldContainer[_types_pb2.UpdatedApplication]
    rejectedNodes: _containers.RepeatedCompositeFieldContainer[_types_pb2.RejectedNode]
    acceptedNodes: _containers.RepeatedCompositeFieldContainer[_types_pb2.AcceptedNode]
    takenSeq: int
    def __init__(self, action: _Optional[_Union[UpdateResponse.ActionFromScheduler, str]] = ..., newAllocations: _Optional[_Iterable[_Union[Allocation, _Mapping]]] = ..., releasedAllocations: _Optional[_Iterable[_Union[AllocationRelease, _Mapping]]] = ..., releasedAllocationAsks: _Optional[_Iterable[_Union[AllocationAskRelease, _Mapping]]] = ..., rejectedAllocations: _Optional[_Iterable[_Union[_types_pb2.RejectedAllocationAsk, _Mapping]]] = ..., nodeRecommendations: _Optional[_Iterable[_Union[_types_pb2.NodeRecommendation, _Mapping]]] = ..., rejectedApplications: _Optional[_Iterable[_Union[_types_pb2.RejectedApplication, _Mapping]]] = ..., acceptedApplications: _Optional[_Iterable[_Union[_types_pb2.AcceptedApplication, _Mapping]]] = ..., updatedApplications: _Optional[_Iterable[_Union[_types_pb2.UpdatedApplication, _Mapping]]] = ..., rejectedNodes: _Optional[_Iterable[_Union[_types_pb2.RejectedNode, _Mapping]]] = ..., acceptedNodes: _Optional[_Iterable[_Union[_types_pb2.AcceptedNode, _Mapping]]] = ..., takenSeq: _Optional[int] = ...) -> None: ...

class AllocationAsk(_message.Message):
    __slots__ = ("allocationKey", "applicationID", "partitionName", "resourceAsk", "maxAllocations", "priority", "executionTimeoutMilliSeconds", "tags", "placementConstraint", "taskGroupName", "placeholder")
    class TagsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ALLOCATIONKEY_FIELD_NUMBER: _ClassVar[int]
    APPLICATIONID_FIELD_NUMBER: _ClassVar[int]
    PARTITIONNAME_FIELD_NUMBER: _ClassVar[int]
    RESOURCEASK_FIELD_NUMBER: _ClassVar[int]
    MAXALLOCATIONS_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    EXECUTIONTIMEOUTMILLISECONDS_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    PLACEMENTCONSTRAINT_FIELD_NUMBER: _ClassVar[int]
    TASKGROUPNAME_FIELD_NUMBER: _ClassVar[int]
    PLACEHOLDER_FIELD_NUMBER: _ClassVar[int]
    allocationKey: str
    applicationID: str
    partitionName: str
    resourceAsk: _types_pb2.Resource
    maxAllocations: int
    priority: Priority
    executionTimeoutMilliSeconds: int
    tags: _containers.ScalarMap[str, str]
    placementConstraint: PlacementConstraint
    taskGroupName: str
    placeholder: bool
    def __init__(self, allocationKey: _Optional[str] = ..., applicationID: _Optional[str] = ..., partitionName: _Optional[str] = ..., resourceAsk: _Optional[_Union[_types_pb2.Resource, _Mapping]] = ..., maxAllocations: _Optional[int] = ..., priority: _Optional[_Union[Priority, _Mapping]] = ..., executionTimeoutMilliSeconds: _Optional[int] = ..., tags: _Optional[_Mapping[str, str]] = ..., placementConstraint: _Optional[_Union[PlacementConstraint, _Mapping]] = ..., taskGroupName: _Optional[str] = ..., placeholder: bool = ...) -> None: ...

class Allocation(_message.Message):
    __slots__ = ("allocationKey", "allocationTags", "UUID", "resourcePerAlloc", "priority", "queueName", "nodeID", "applicationID", "partitionName", "taskGroupName", "placeholder")
    class AllocationTagsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ALLOCATIONKEY_FIELD_NUMBER: _ClassVar[int]
    ALLOCATIONTAGS_FIELD_NUMBER: _ClassVar[int]
    UUID_FIELD_NUMBER: _ClassVar[int]
    RESOURCEPERALLOC_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    QUEUENAME_FIELD_NUMBER: _ClassVar[int]
    NODEID_FIELD_NUMBER: _ClassVar[int]
    APPLICATIONID_FIELD_NUMBER: _ClassVar[int]
    PARTITIONNAME_FIELD_NUMBER: _ClassVar[int]
    TASKGROUPNAME_FIELD_NUMBER: _ClassVar[int]
    PLACEHOLDER_FIELD_NUMBER: _ClassVar[int]
    allocationKey: str
    allocationTags: _containers.ScalarMap[str, str]
    UUID: str
    resourcePerAlloc: _types_pb2.Resource
    priority: Priority
    queueName: str
    nodeID: str
    applicationID: str
    partitionName: str
    taskGroupName: str
    placeholder: bool
    def __init__(self, allocationKey: _Optional[str] = ..., allocationTags: _Optional[_Mapping[str, str]] = ..., UUID: _Optional[str] = ..., resourcePerAlloc: _Optional[_Union[_types_pb2.Resource, _Mapping]] = ..., priority: _Optional[_Union[Priority, _Mapping]] = ..., queueName: _Optional[str] = ..., nodeID: _Optional[str] = ..., applicationID: _Optional[str] = ..., partitionName: _Optional[str] = ..., taskGroupName: _Optional[str] = ..., placeholder: bool = ...) -> None: ...

class Priority(_message.Message):
    __slots__ = ("priorityValue", "priorityClassName")
    PRIORITYVALUE_FIELD_NUMBER: _ClassVar[int]
    PRIORITYCLASSNAME_FIELD_NUMBER: _ClassVar[int]
    priorityValue: int
    priorityClassName: str
    def __init__(self, priorityValue: _Optional[int] = ..., priorityClassName: _Optional[str] = ...) -> None: ...

class AllocationReleasesRequest(_message.Message):
    __slots__ = ("allocationsToRelease", "allocationAsksToRelease")
    ALLOCATIONSTORELEASE_FIELD_NUMBER: _ClassVar[int]
    ALLOCATIONASKSTORELEASE_FIELD_NUMBER: _ClassVar[int]
    allocationsToRelease: _containers.RepeatedCompositeFieldContainer[AllocationRelease]
    allocationAsksToRelease: _containers.RepeatedCompositeFieldContainer[AllocationAskRelease]
    def __init__(self, allocationsToRelease: _Optional[_Iterable[_Union[AllocationRelease, _Mapping]]] = ..., allocationAsksToRelease: _Optional[_Iterable[_Union[AllocationAskRelease, _Mapping]]] = ...) -> None: ...

class AllocationRelease(_message.Message):
    __slots__ = ("partitionName", "applicationID", "UUID", "terminationType", "message")
    class TerminationType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        STOPPED_BY_RM: _ClassVar[AllocationRelease.TerminationType]
        TIMEOUT: _ClassVar[AllocationRelease.TerminationType]
        PREEMPTED_BY_SCHEDULER: _ClassVar[AllocationRelease.TerminationType]
        PLACEHOLDER_REPLACED: _ClassVar[AllocationRelease.TerminationType]
    STOPPED_BY_RM: AllocationRelease.TerminationType
    TIMEOUT: AllocationRelease.TerminationType
    PREEMPTED_BY_SCHEDULER: AllocationRelease.TerminationType
    PLACEHOLDER_REPLACED: AllocationRelease.TerminationType
    PARTITIONNAME_FIELD_NUMBER: _ClassVar[int]
    APPLICATIONID_FIELD_NUMBER: _ClassVar[int]
    UUID_FIELD_NUMBER: _ClassVar[int]
    TERMINATIONTYPE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    partitionName: str
    applicationID: str
    UUID: str
    terminationType: AllocationRelease.TerminationType
    message: str
    def __init__(self, partitionName: _Optional[str] = ..., applicationID: _Optional[str] = ..., UUID: _Optional[str] = ..., terminationType: _Optional[_Union[AllocationRelease.TerminationType, str]] = ..., message: _Optional[str] = ...) -> None: ...

class AllocationAskRelease(_message.Message):
    __slots__ = ("partitionName", "applicationID", "allocationkey", "message")
    PARTITIONNAME_FIELD_NUMBER: _ClassVar[int]
    APPLICATIONID_FIELD_NUMBER: _ClassVar[int]
    ALLOCATIONKEY_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    partitionName: str
    applicationID: str
    allocationkey: str
    message: str
    def __init__(self, partitionName: _Optional[str] = ..., applicationID: _Optional[str] = ..., allocationkey: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class NewNodeInfo(_message.Message):
    __slots__ = ("nodeID", "attributes", "schedulableResource", "occupiedResource", "existingAllocations")
    class AttributesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NODEID_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    SCHEDULABLERESOURCE_FIELD_NUMBER: _ClassVar[int]
    OCCUPIEDRESOURCE_FIELD_NUMBER: _ClassVar[int]
    EXISTINGALLOCATIONS_FIELD_NUMBER: _ClassVar[int]
    nodeID: str
    attributes: _containers.ScalarMap[str, str]
    schedulableResource: _types_pb2.Resource
    occupiedResource: _types_pb2.Resource
    existingAllocations: _containers.RepeatedCompositeFieldContainer[Allocation]
    def __init__(self, nodeID: _Optional[str] = ..., attributes: _Optional[_Mapping[str, str]] = ..., schedulableResource: _Optional[_Union[_types_pb2.Resource, _Mapping]] = ..., occupiedResource: _Optional[_Union[_types_pb2.Resource, _Mapping]] = ..., existingAllocations: _Optional[_Iterable[_Union[Allocation, _Mapping]]] = ...) -> None: ...

class UpdateNodeInfo(_message.Message):
    __slots__ = ("nodeID", "attributes", "schedulableResource", "occupiedResource", "action")
    class ActionFromRM(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UPDATE: _ClassVar[UpdateNodeInfo.ActionFromRM]
        DRAIN_NODE: _ClassVar[UpdateNodeInfo.ActionFromRM]
        DECOMISSION: _ClassVar[UpdateNodeInfo.ActionFromRM]
        DRAIN_TO_SCHEDULABLE: _ClassVar[UpdateNodeInfo.ActionFromRM]
    UPDATE: UpdateNodeInfo.ActionFromRM
    DRAIN_NODE: UpdateNodeInfo.ActionFromRM
    DECOMISSION: UpdateNodeInfo.ActionFromRM
    DRAIN_TO_SCHEDULABLE: UpdateNodeInfo.ActionFromRM
    class AttributesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NODEID_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    SCHEDULABLERESOURCE_FIELD_NUMBER: _ClassVar[int]
    OCCUPIEDRESOURCE_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    nodeID: str
    attributes: _containers.ScalarMap[str, str]
    schedulableResource: _types_pb2.Resource
    occupiedResource: _types_pb2.Resource
    action: UpdateNodeInfo.ActionFromRM
    def __init__(self, nodeID: _Optional[str] = ..., attributes: _Optional[_Mapping[str, str]] = ..., schedulableResource: _Optional[_Union[_types_pb2.Resource, _Mapping]] = ..., occupiedResource: _Optional[_Union[_types_pb2.Resource, _Mapping]] = ..., action: _Optional[_Union[UpdateNodeInfo.ActionFromRM, str]] = ...) -> None: ...

class PlacementConstraint(_message.Message):
    __slots__ = ("simpleConstraint",)
    SIMPLECONSTRAINT_FIELD_NUMBER: _ClassVar[int]
    simpleConstraint: SimplePlacementConstraint
    def __init__(self, simpleConstraint: _Optional[_Union[SimplePlacementConstraint, _Mapping]] = ...) -> None: ...

class SimplePlacementConstraint(_message.Message):
    __slots__ = ("nodeAffinityConstraint", "allocationAffinityAttribute")
    NODEAFFINITYCONSTRAINT_FIELD_NUMBER: _ClassVar[int]
    ALLOCATIONAFFINITYATTRIBUTE_FIELD_NUMBER: _ClassVar[int]
    nodeAffinityConstraint: NodeAffinityConstraints
    allocationAffinityAttribute: AllocationAffinityConstraints
    def __init__(self, nodeAffinityConstraint: _Optional[_Union[NodeAffinityConstraints, _Mapping]] = ..., allocationAffinityAttribute: _Optional[_Union[AllocationAffinityConstraints, _Mapping]] = ...) -> None: ...

class NodeAffinityConstraints(_message.Message):
    __slots__ = ("targetExpressions",)
    TARGETEXPRESSIONS_FIELD_NUMBER: _ClassVar[int]
    targetExpressions: _containers.RepeatedCompositeFieldContainer[AffinityTargetExpression]
    def __init__(self, targetExpressions: _Optional[_Iterable[_Union[AffinityTargetExpression, _Mapping]]] = ...) -> None: ...

class AllocationAffinityConstraints(_message.Message):
    __slots__ = ("scope", "tragetExpressions", "minCardinality", "maxCardinality", "required")
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    TRAGETEXPRESSIONS_FIELD_NUMBER: _ClassVar[int]
    MINCARDINALITY_FIELD_NUMBER: _ClassVar[int]
    MAXCARDINALITY_FIELD_NUMBER: _ClassVar[int]
    REQUIRED_FIELD_NUMBER: _ClassVar[int]
    scope: str
    tragetExpressions: _containers.RepeatedCompositeFieldContainer[AffinityTargetExpression]
    minCardinality: int
    maxCardinality: int
    required: bool
    def __init__(self, scope: _Optional[str] = ..., tragetExpressions: _Optional[_Iterable[_Union[AffinityTargetExpression, _Mapping]]] = ..., minCardinality: _Optional[int] = ..., maxCardinality: _Optional[int] = ..., required: bool = ...) -> None: ...

class AffinityTargetExpression(_message.Message):
    __slots__ = ("targetOperator", "targetKey", "targetValues")
    class AffinityTargetOperator(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        IN: _ClassVar[AffinityTargetExpression.AffinityTargetOperator]
        NOT_IN: _ClassVar[AffinityTargetExpression.AffinityTargetOperator]
        EXIST: _ClassVar[AffinityTargetExpression.AffinityTargetOperator]
        NOT_EXIST: _ClassVar[AffinityTargetExpression.AffinityTargetOperator]
    IN: AffinityTargetExpression.AffinityTargetOperator
    NOT_IN: AffinityTargetExpression.AffinityTargetOperator
    EXIST: AffinityTargetExpression.AffinityTargetOperator
    NOT_EXIST: AffinityTargetExpression.AffinityTargetOperator
    TARGETOPERATOR_FIELD_NUMBER: _ClassVar[int]
    TARGETKEY_FIELD_NUMBER: _ClassVar[int]
    TARGETVALUES_FIELD_NUMBER: _ClassVar[int]
    targetOperator: AffinityTargetExpression
    targetKey: str
    targetValues: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, targetOperator: _Optional[_Union[AffinityTargetExpression, _Mapping]] = ..., targetKey: _Optional[str] = ..., targetValues: _Optional[_Iterable[str]] = ...) -> None: ...
