from monoceros.si.v1 import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PartitionState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PARTITION_STATE_UNSPECIFIED: _ClassVar[PartitionState]
    PARTITION_ACTIVE: _ClassVar[PartitionState]
    PARTITION_DRAINING: _ClassVar[PartitionState]
    PARTITION_STOPPED: _ClassVar[PartitionState]

class ApplicationList(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    APPLICATION_LIST_LIVE: _ClassVar[ApplicationList]
    APPLICATION_LIST_ENDED: _ClassVar[ApplicationList]
    APPLICATION_LIST_REJECTED: _ClassVar[ApplicationList]
PARTITION_STATE_UNSPECIFIED: PartitionState
PARTITION_ACTIVE: PartitionState
PARTITION_DRAINING: PartitionState
PARTITION_STOPPED: PartitionState
APPLICATION_LIST_LIVE: ApplicationList
APPLICATION_LIST_ENDED: ApplicationList
APPLICATION_LIST_REJECTED: ApplicationList

class GetConfigRequest(_message.Message):
    __slots__ = ("rm_id", "policy_group")
    RM_ID_FIELD_NUMBER: _ClassVar[int]
    POLICY_GROUP_FIELD_NUMBER: _ClassVar[int]
    rm_id: str
    policy_group: str
    def __init__(self, rm_id: _Optional[str] = ..., policy_group: _Optional[str] = ...) -> None: ...

class GetConfigResponse(_message.Message):
    __slots__ = ("config", "extra_config", "checksum", "policy_group", "is_default")
    class ExtraConfigEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    EXTRA_CONFIG_FIELD_NUMBER: _ClassVar[int]
    CHECKSUM_FIELD_NUMBER: _ClassVar[int]
    POLICY_GROUP_FIELD_NUMBER: _ClassVar[int]
    IS_DEFAULT_FIELD_NUMBER: _ClassVar[int]
    config: str
    extra_config: _containers.ScalarMap[str, str]
    checksum: str
    policy_group: str
    is_default: bool
    def __init__(self, config: _Optional[str] = ..., extra_config: _Optional[_Mapping[str, str]] = ..., checksum: _Optional[str] = ..., policy_group: _Optional[str] = ..., is_default: bool = ...) -> None: ...

class DeregisterResourceManagerRequest(_message.Message):
    __slots__ = ("rm_id", "session_id", "reason")
    RM_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    rm_id: str
    session_id: int
    reason: str
    def __init__(self, rm_id: _Optional[str] = ..., session_id: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class DeregisterResourceManagerResponse(_message.Message):
    __slots__ = ("released_allocations", "removed_nodes", "removed_applications")
    RELEASED_ALLOCATIONS_FIELD_NUMBER: _ClassVar[int]
    REMOVED_NODES_FIELD_NUMBER: _ClassVar[int]
    REMOVED_APPLICATIONS_FIELD_NUMBER: _ClassVar[int]
    released_allocations: int
    removed_nodes: int
    removed_applications: int
    def __init__(self, released_allocations: _Optional[int] = ..., removed_nodes: _Optional[int] = ..., removed_applications: _Optional[int] = ...) -> None: ...

class ListSessionsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListSessionsResponse(_message.Message):
    __slots__ = ("scheduler_id", "sessions")
    SCHEDULER_ID_FIELD_NUMBER: _ClassVar[int]
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    scheduler_id: str
    sessions: _containers.RepeatedCompositeFieldContainer[SessionInfo]
    def __init__(self, scheduler_id: _Optional[str] = ..., sessions: _Optional[_Iterable[_Union[SessionInfo, _Mapping]]] = ...) -> None: ...

class SessionInfo(_message.Message):
    __slots__ = ("rm_id", "session_id", "state", "version", "policy_group", "dialect", "open_streams", "registered_at_nano", "paused_at_nano", "outbox_items", "instance_id", "build_info", "lost", "remark", "member_id")
    class BuildInfoEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    RM_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    POLICY_GROUP_FIELD_NUMBER: _ClassVar[int]
    DIALECT_FIELD_NUMBER: _ClassVar[int]
    OPEN_STREAMS_FIELD_NUMBER: _ClassVar[int]
    REGISTERED_AT_NANO_FIELD_NUMBER: _ClassVar[int]
    PAUSED_AT_NANO_FIELD_NUMBER: _ClassVar[int]
    OUTBOX_ITEMS_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    BUILD_INFO_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    REMARK_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    rm_id: str
    session_id: int
    state: str
    version: str
    policy_group: str
    dialect: str
    open_streams: _containers.RepeatedScalarFieldContainer[str]
    registered_at_nano: int
    paused_at_nano: int
    outbox_items: int
    instance_id: str
    build_info: _containers.ScalarMap[str, str]
    lost: str
    remark: str
    member_id: str
    def __init__(self, rm_id: _Optional[str] = ..., session_id: _Optional[int] = ..., state: _Optional[str] = ..., version: _Optional[str] = ..., policy_group: _Optional[str] = ..., dialect: _Optional[str] = ..., open_streams: _Optional[_Iterable[str]] = ..., registered_at_nano: _Optional[int] = ..., paused_at_nano: _Optional[int] = ..., outbox_items: _Optional[int] = ..., instance_id: _Optional[str] = ..., build_info: _Optional[_Mapping[str, str]] = ..., lost: _Optional[str] = ..., remark: _Optional[str] = ..., member_id: _Optional[str] = ...) -> None: ...

class ListMembersRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListMembersResponse(_message.Message):
    __slots__ = ("cluster", "arbiter", "member_id", "state", "problem", "lease_ms", "read_ago_ms", "members", "not_in_force")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    ARBITER_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    READ_AGO_MS_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    NOT_IN_FORCE_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    arbiter: str
    member_id: str
    state: str
    problem: str
    lease_ms: int
    read_ago_ms: int
    members: _containers.RepeatedCompositeFieldContainer[MemberInfo]
    not_in_force: _containers.RepeatedCompositeFieldContainer[GroupConfiguration]
    def __init__(self, cluster: _Optional[str] = ..., arbiter: _Optional[str] = ..., member_id: _Optional[str] = ..., state: _Optional[str] = ..., problem: _Optional[str] = ..., lease_ms: _Optional[int] = ..., read_ago_ms: _Optional[int] = ..., members: _Optional[_Iterable[_Union[MemberInfo, _Mapping]]] = ..., not_in_force: _Optional[_Iterable[_Union[GroupConfiguration, _Mapping]]] = ...) -> None: ...

class GroupConfiguration(_message.Message):
    __slots__ = ("policy_group", "in_force", "in_arbiter", "reason")
    POLICY_GROUP_FIELD_NUMBER: _ClassVar[int]
    IN_FORCE_FIELD_NUMBER: _ClassVar[int]
    IN_ARBITER_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    policy_group: str
    in_force: int
    in_arbiter: int
    reason: str
    def __init__(self, policy_group: _Optional[str] = ..., in_force: _Optional[int] = ..., in_arbiter: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class MemberInfo(_message.Message):
    __slots__ = ("member_id", "incarnation", "version", "grpc_address", "rest_address", "internal_address", "state", "rms", "load", "beat_ago_ms", "not_in_force")
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    GRPC_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    REST_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    INTERNAL_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    RMS_FIELD_NUMBER: _ClassVar[int]
    LOAD_FIELD_NUMBER: _ClassVar[int]
    BEAT_AGO_MS_FIELD_NUMBER: _ClassVar[int]
    NOT_IN_FORCE_FIELD_NUMBER: _ClassVar[int]
    member_id: str
    incarnation: str
    version: str
    grpc_address: str
    rest_address: str
    internal_address: str
    state: str
    rms: int
    load: int
    beat_ago_ms: int
    not_in_force: int
    def __init__(self, member_id: _Optional[str] = ..., incarnation: _Optional[str] = ..., version: _Optional[str] = ..., grpc_address: _Optional[str] = ..., rest_address: _Optional[str] = ..., internal_address: _Optional[str] = ..., state: _Optional[str] = ..., rms: _Optional[int] = ..., load: _Optional[int] = ..., beat_ago_ms: _Optional[int] = ..., not_in_force: _Optional[int] = ...) -> None: ...

class ListClaimsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListClaimsResponse(_message.Message):
    __slots__ = ("claims",)
    CLAIMS_FIELD_NUMBER: _ClassVar[int]
    claims: _containers.RepeatedCompositeFieldContainer[ClaimInfo]
    def __init__(self, claims: _Optional[_Iterable[_Union[ClaimInfo, _Mapping]]] = ...) -> None: ...

class ClaimInfo(_message.Message):
    __slots__ = ("rm_id", "session_id", "member_id", "wanted_by", "since_nano")
    RM_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    WANTED_BY_FIELD_NUMBER: _ClassVar[int]
    SINCE_NANO_FIELD_NUMBER: _ClassVar[int]
    rm_id: str
    session_id: int
    member_id: str
    wanted_by: str
    since_nano: int
    def __init__(self, rm_id: _Optional[str] = ..., session_id: _Optional[int] = ..., member_id: _Optional[str] = ..., wanted_by: _Optional[str] = ..., since_nano: _Optional[int] = ...) -> None: ...

class MoveResourceManagerRequest(_message.Message):
    __slots__ = ("rm_id", "to", "reason")
    RM_ID_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    rm_id: str
    to: str
    reason: str
    def __init__(self, rm_id: _Optional[str] = ..., to: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class MoveResourceManagerResponse(_message.Message):
    __slots__ = ("member_id",)
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    member_id: str
    def __init__(self, member_id: _Optional[str] = ...) -> None: ...

class DrainMemberRequest(_message.Message):
    __slots__ = ("member_id", "drain", "reason")
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    DRAIN_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    member_id: str
    drain: bool
    reason: str
    def __init__(self, member_id: _Optional[str] = ..., drain: bool = ..., reason: _Optional[str] = ...) -> None: ...

class DrainMemberResponse(_message.Message):
    __slots__ = ("handed_over", "remaining")
    HANDED_OVER_FIELD_NUMBER: _ClassVar[int]
    REMAINING_FIELD_NUMBER: _ClassVar[int]
    handed_over: int
    remaining: int
    def __init__(self, handed_over: _Optional[int] = ..., remaining: _Optional[int] = ...) -> None: ...

class AcceptRestoreRequest(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class AcceptRestoreResponse(_message.Message):
    __slots__ = ("floor",)
    FLOOR_FIELD_NUMBER: _ClassVar[int]
    floor: int
    def __init__(self, floor: _Optional[int] = ...) -> None: ...

class TriggerResyncRequest(_message.Message):
    __slots__ = ("rm_id", "reason")
    RM_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    rm_id: str
    reason: str
    def __init__(self, rm_id: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class TriggerResyncResponse(_message.Message):
    __slots__ = ("closed_streams",)
    CLOSED_STREAMS_FIELD_NUMBER: _ClassVar[int]
    closed_streams: int
    def __init__(self, closed_streams: _Optional[int] = ...) -> None: ...

class SetPartitionStateRequest(_message.Message):
    __slots__ = ("rm_id", "partition_name", "state", "reason")
    RM_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    rm_id: str
    partition_name: str
    state: PartitionState
    reason: str
    def __init__(self, rm_id: _Optional[str] = ..., partition_name: _Optional[str] = ..., state: _Optional[_Union[PartitionState, str]] = ..., reason: _Optional[str] = ...) -> None: ...

class SetPartitionStateResponse(_message.Message):
    __slots__ = ("old_state",)
    OLD_STATE_FIELD_NUMBER: _ClassVar[int]
    old_state: PartitionState
    def __init__(self, old_state: _Optional[_Union[PartitionState, str]] = ...) -> None: ...

class DrainNodesRequest(_message.Message):
    __slots__ = ("rm_id", "partition_name", "node_ids", "drain", "reason")
    RM_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_NAME_FIELD_NUMBER: _ClassVar[int]
    NODE_IDS_FIELD_NUMBER: _ClassVar[int]
    DRAIN_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    rm_id: str
    partition_name: str
    node_ids: _containers.RepeatedScalarFieldContainer[str]
    drain: bool
    reason: str
    def __init__(self, rm_id: _Optional[str] = ..., partition_name: _Optional[str] = ..., node_ids: _Optional[_Iterable[str]] = ..., drain: bool = ..., reason: _Optional[str] = ...) -> None: ...

class DrainNodesResponse(_message.Message):
    __slots__ = ("changed", "unknown_node_ids", "remaining_allocations")
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_NODE_IDS_FIELD_NUMBER: _ClassVar[int]
    REMAINING_ALLOCATIONS_FIELD_NUMBER: _ClassVar[int]
    changed: int
    unknown_node_ids: _containers.RepeatedScalarFieldContainer[str]
    remaining_allocations: int
    def __init__(self, changed: _Optional[int] = ..., unknown_node_ids: _Optional[_Iterable[str]] = ..., remaining_allocations: _Optional[int] = ...) -> None: ...

class ShutdownRequest(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class ShutdownResponse(_message.Message):
    __slots__ = ("grace_ms",)
    GRACE_MS_FIELD_NUMBER: _ClassVar[int]
    grace_ms: int
    def __init__(self, grace_ms: _Optional[int] = ...) -> None: ...

class GetQueuesRequest(_message.Message):
    __slots__ = ("rm_id", "partition_name", "queue", "depth")
    RM_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_NAME_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    DEPTH_FIELD_NUMBER: _ClassVar[int]
    rm_id: str
    partition_name: str
    queue: str
    depth: int
    def __init__(self, rm_id: _Optional[str] = ..., partition_name: _Optional[str] = ..., queue: _Optional[str] = ..., depth: _Optional[int] = ...) -> None: ...

class GetQueuesResponse(_message.Message):
    __slots__ = ("root", "is_default")
    ROOT_FIELD_NUMBER: _ClassVar[int]
    IS_DEFAULT_FIELD_NUMBER: _ClassVar[int]
    root: QueueInfo
    is_default: bool
    def __init__(self, root: _Optional[_Union[QueueInfo, _Mapping]] = ..., is_default: bool = ...) -> None: ...

class QueueInfo(_message.Message):
    __slots__ = ("path", "state", "leaf", "managed", "guaranteed", "max", "allocated", "pending", "headroom", "max_running_applications", "running_applications", "priority", "children", "preempting", "sorting_policy", "priority_sorting", "priority_offset", "priority_fence", "preemption_enabled", "preemption_fence", "properties", "child_paths")
    class PropertiesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    PATH_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    LEAF_FIELD_NUMBER: _ClassVar[int]
    MANAGED_FIELD_NUMBER: _ClassVar[int]
    GUARANTEED_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    ALLOCATED_FIELD_NUMBER: _ClassVar[int]
    PENDING_FIELD_NUMBER: _ClassVar[int]
    HEADROOM_FIELD_NUMBER: _ClassVar[int]
    MAX_RUNNING_APPLICATIONS_FIELD_NUMBER: _ClassVar[int]
    RUNNING_APPLICATIONS_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    CHILDREN_FIELD_NUMBER: _ClassVar[int]
    PREEMPTING_FIELD_NUMBER: _ClassVar[int]
    SORTING_POLICY_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_SORTING_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_OFFSET_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FENCE_FIELD_NUMBER: _ClassVar[int]
    PREEMPTION_ENABLED_FIELD_NUMBER: _ClassVar[int]
    PREEMPTION_FENCE_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    CHILD_PATHS_FIELD_NUMBER: _ClassVar[int]
    path: str
    state: str
    leaf: bool
    managed: bool
    guaranteed: _types_pb2.Resource
    max: _types_pb2.Resource
    allocated: _types_pb2.Resource
    pending: _types_pb2.Resource
    headroom: _types_pb2.Resource
    max_running_applications: int
    running_applications: int
    priority: int
    children: _containers.RepeatedCompositeFieldContainer[QueueInfo]
    preempting: _types_pb2.Resource
    sorting_policy: str
    priority_sorting: bool
    priority_offset: int
    priority_fence: bool
    preemption_enabled: bool
    preemption_fence: bool
    properties: _containers.ScalarMap[str, str]
    child_paths: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, path: _Optional[str] = ..., state: _Optional[str] = ..., leaf: bool = ..., managed: bool = ..., guaranteed: _Optional[_Union[_types_pb2.Resource, _Mapping]] = ..., max: _Optional[_Union[_types_pb2.Resource, _Mapping]] = ..., allocated: _Optional[_Union[_types_pb2.Resource, _Mapping]] = ..., pending: _Optional[_Union[_types_pb2.Resource, _Mapping]] = ..., headroom: _Optional[_Union[_types_pb2.Resource, _Mapping]] = ..., max_running_applications: _Optional[int] = ..., running_applications: _Optional[int] = ..., priority: _Optional[int] = ..., children: _Optional[_Iterable[_Union[QueueInfo, _Mapping]]] = ..., preempting: _Optional[_Union[_types_pb2.Resource, _Mapping]] = ..., sorting_policy: _Optional[str] = ..., priority_sorting: bool = ..., priority_offset: _Optional[int] = ..., priority_fence: bool = ..., preemption_enabled: bool = ..., preemption_fence: bool = ..., properties: _Optional[_Mapping[str, str]] = ..., child_paths: _Optional[_Iterable[str]] = ...) -> None: ...

class ListApplicationsRequest(_message.Message):
    __slots__ = ("rm_id", "partition_name", "queue", "states", "users", "application_ids", "details", "page_size", "page_token", "list", "why")
    RM_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_NAME_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    USERS_FIELD_NUMBER: _ClassVar[int]
    APPLICATION_IDS_FIELD_NUMBER: _ClassVar[int]
    DETAILS_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    LIST_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    rm_id: str
    partition_name: str
    queue: str
    states: _containers.RepeatedScalarFieldContainer[str]
    users: _containers.RepeatedScalarFieldContainer[str]
    application_ids: _containers.RepeatedScalarFieldContainer[str]
    details: bool
    page_size: int
    page_token: str
    list: ApplicationList
    why: bool
    def __init__(self, rm_id: _Optional[str] = ..., partition_name: _Optional[str] = ..., queue: _Optional[str] = ..., states: _Optional[_Iterable[str]] = ..., users: _Optional[_Iterable[str]] = ..., application_ids: _Optional[_Iterable[str]] = ..., details: bool = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., list: _Optional[_Union[ApplicationList, str]] = ..., why: bool = ...) -> None: ...

class ListApplicationsResponse(_message.Message):
    __slots__ = ("applications", "next_page_token")
    APPLICATIONS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    applications: _containers.RepeatedCompositeFieldContainer[ApplicationInfo]
    next_page_token: str
    def __init__(self, applications: _Optional[_Iterable[_Union[ApplicationInfo, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ApplicationInfo(_message.Message):
    __slots__ = ("application_id", "queue", "user", "state", "submitted_at_nano", "allocated", "pending", "allocations", "requests", "groups", "placeholders", "started_at_nano", "priority", "state_log", "held", "waiting", "why", "rejected", "cure", "tags", "removed")
    class TagsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    APPLICATION_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    SUBMITTED_AT_NANO_FIELD_NUMBER: _ClassVar[int]
    ALLOCATED_FIELD_NUMBER: _ClassVar[int]
    PENDING_FIELD_NUMBER: _ClassVar[int]
    ALLOCATIONS_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    PLACEHOLDERS_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_NANO_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    STATE_LOG_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    CURE_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    application_id: str
    queue: str
    user: str
    state: str
    submitted_at_nano: int
    allocated: _types_pb2.Resource
    pending: _types_pb2.Resource
    allocations: int
    requests: int
    groups: _containers.RepeatedScalarFieldContainer[str]
    placeholders: _types_pb2.Resource
    started_at_nano: int
    priority: int
    state_log: _containers.RepeatedCompositeFieldContainer[StateChange]
    held: _containers.RepeatedCompositeFieldContainer[AllocationInfo]
    waiting: _containers.RepeatedCompositeFieldContainer[RequestInfo]
    why: str
    rejected: str
    cure: str
    tags: _containers.ScalarMap[str, str]
    removed: str
    def __init__(self, application_id: _Optional[str] = ..., queue: _Optional[str] = ..., user: _Optional[str] = ..., state: _Optional[str] = ..., submitted_at_nano: _Optional[int] = ..., allocated: _Optional[_Union[_types_pb2.Resource, _Mapping]] = ..., pending: _Optional[_Union[_types_pb2.Resource, _Mapping]] = ..., allocations: _Optional[int] = ..., requests: _Optional[int] = ..., groups: _Optional[_Iterable[str]] = ..., placeholders: _Optional[_Union[_types_pb2.Resource, _Mapping]] = ..., started_at_nano: _Optional[int] = ..., priority: _Optional[int] = ..., state_log: _Optional[_Iterable[_Union[StateChange, _Mapping]]] = ..., held: _Optional[_Iterable[_Union[AllocationInfo, _Mapping]]] = ..., waiting: _Optional[_Iterable[_Union[RequestInfo, _Mapping]]] = ..., why: _Optional[str] = ..., rejected: _Optional[str] = ..., cure: _Optional[str] = ..., tags: _Optional[_Mapping[str, str]] = ..., removed: _Optional[str] = ...) -> None: ...

class StateChange(_message.Message):
    __slots__ = ("state", "entered_at_nano")
    STATE_FIELD_NUMBER: _ClassVar[int]
    ENTERED_AT_NANO_FIELD_NUMBER: _ClassVar[int]
    state: str
    entered_at_nano: int
    def __init__(self, state: _Optional[str] = ..., entered_at_nano: _Optional[int] = ...) -> None: ...

class AllocationInfo(_message.Message):
    __slots__ = ("allocation_key", "uuid", "application_id", "node_id", "resource", "priority", "placeholder", "task_group_name", "preempted", "allocated_at_nano", "tags", "internal")
    class TagsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ALLOCATION_KEY_FIELD_NUMBER: _ClassVar[int]
    UUID_FIELD_NUMBER: _ClassVar[int]
    APPLICATION_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    PLACEHOLDER_FIELD_NUMBER: _ClassVar[int]
    TASK_GROUP_NAME_FIELD_NUMBER: _ClassVar[int]
    PREEMPTED_FIELD_NUMBER: _ClassVar[int]
    ALLOCATED_AT_NANO_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    INTERNAL_FIELD_NUMBER: _ClassVar[int]
    allocation_key: str
    uuid: str
    application_id: str
    node_id: str
    resource: _types_pb2.Resource
    priority: int
    placeholder: bool
    task_group_name: str
    preempted: bool
    allocated_at_nano: int
    tags: _containers.ScalarMap[str, str]
    internal: bool
    def __init__(self, allocation_key: _Optional[str] = ..., uuid: _Optional[str] = ..., application_id: _Optional[str] = ..., node_id: _Optional[str] = ..., resource: _Optional[_Union[_types_pb2.Resource, _Mapping]] = ..., priority: _Optional[int] = ..., placeholder: bool = ..., task_group_name: _Optional[str] = ..., preempted: bool = ..., allocated_at_nano: _Optional[int] = ..., tags: _Optional[_Mapping[str, str]] = ..., internal: bool = ...) -> None: ...

class RequestInfo(_message.Message):
    __slots__ = ("allocation_key", "application_id", "resource", "count", "priority", "required_node_id", "placeholder", "task_group_name", "requested_at_nano", "reasons", "tags", "internal")
    class TagsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ALLOCATION_KEY_FIELD_NUMBER: _ClassVar[int]
    APPLICATION_ID_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    REQUIRED_NODE_ID_FIELD_NUMBER: _ClassVar[int]
    PLACEHOLDER_FIELD_NUMBER: _ClassVar[int]
    TASK_GROUP_NAME_FIELD_NUMBER: _ClassVar[int]
    REQUESTED_AT_NANO_FIELD_NUMBER: _ClassVar[int]
    REASONS_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    INTERNAL_FIELD_NUMBER: _ClassVar[int]
    allocation_key: str
    application_id: str
    resource: _types_pb2.Resource
    count: int
    priority: int
    required_node_id: str
    placeholder: bool
    task_group_name: str
    requested_at_nano: int
    reasons: _containers.RepeatedCompositeFieldContainer[WaitReason]
    tags: _containers.ScalarMap[str, str]
    internal: bool
    def __init__(self, allocation_key: _Optional[str] = ..., application_id: _Optional[str] = ..., resource: _Optional[_Union[_types_pb2.Resource, _Mapping]] = ..., count: _Optional[int] = ..., priority: _Optional[int] = ..., required_node_id: _Optional[str] = ..., placeholder: bool = ..., task_group_name: _Optional[str] = ..., requested_at_nano: _Optional[int] = ..., reasons: _Optional[_Iterable[_Union[WaitReason, _Mapping]]] = ..., tags: _Optional[_Mapping[str, str]] = ..., internal: bool = ...) -> None: ...

class WaitReason(_message.Message):
    __slots__ = ("message", "count", "last_at_nano")
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    LAST_AT_NANO_FIELD_NUMBER: _ClassVar[int]
    message: str
    count: int
    last_at_nano: int
    def __init__(self, message: _Optional[str] = ..., count: _Optional[int] = ..., last_at_nano: _Optional[int] = ...) -> None: ...

class ExplainApplicationRequest(_message.Message):
    __slots__ = ("partition_name", "application_id", "allocation_key", "offset")
    PARTITION_NAME_FIELD_NUMBER: _ClassVar[int]
    APPLICATION_ID_FIELD_NUMBER: _ClassVar[int]
    ALLOCATION_KEY_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    partition_name: str
    application_id: str
    allocation_key: str
    offset: int
    def __init__(self, partition_name: _Optional[str] = ..., application_id: _Optional[str] = ..., allocation_key: _Optional[str] = ..., offset: _Optional[int] = ...) -> None: ...

class ExplainApplicationResponse(_message.Message):
    __slots__ = ("explanations",)
    EXPLANATIONS_FIELD_NUMBER: _ClassVar[int]
    explanations: _containers.RepeatedCompositeFieldContainer[Explanation]
    def __init__(self, explanations: _Optional[_Iterable[_Union[Explanation, _Mapping]]] = ...) -> None: ...

class Explanation(_message.Message):
    __slots__ = ("allocation_keys", "count", "resource", "cause", "since", "object", "short", "message", "cure", "task_group", "obstacles", "order", "nodes", "changes", "preemption", "gang")
    class Obstacle(_message.Message):
        __slots__ = ("cause", "object", "short", "have", "want", "since", "message")
        CAUSE_FIELD_NUMBER: _ClassVar[int]
        OBJECT_FIELD_NUMBER: _ClassVar[int]
        SHORT_FIELD_NUMBER: _ClassVar[int]
        HAVE_FIELD_NUMBER: _ClassVar[int]
        WANT_FIELD_NUMBER: _ClassVar[int]
        SINCE_FIELD_NUMBER: _ClassVar[int]
        MESSAGE_FIELD_NUMBER: _ClassVar[int]
        cause: str
        object: str
        short: _types_pb2.Resource
        have: _types_pb2.Resource
        want: _types_pb2.Resource
        since: int
        message: str
        def __init__(self, cause: _Optional[str] = ..., object: _Optional[str] = ..., short: _Optional[_Union[_types_pb2.Resource, _Mapping]] = ..., have: _Optional[_Union[_types_pb2.Resource, _Mapping]] = ..., want: _Optional[_Union[_types_pb2.Resource, _Mapping]] = ..., since: _Optional[int] = ..., message: _Optional[str] = ...) -> None: ...
    class Order(_message.Message):
        __slots__ = ("level", "rank", "of", "first")
        LEVEL_FIELD_NUMBER: _ClassVar[int]
        IN_FIELD_NUMBER: _ClassVar[int]
        RANK_FIELD_NUMBER: _ClassVar[int]
        OF_FIELD_NUMBER: _ClassVar[int]
        FIRST_FIELD_NUMBER: _ClassVar[int]
        level: str
        rank: int
        of: int
        first: str
        def __init__(self, level: _Optional[str] = ..., rank: _Optional[int] = ..., of: _Optional[int] = ..., first: _Optional[str] = ..., **kwargs) -> None: ...
    class Nodes(_message.Message):
        __slots__ = ("total", "closed", "too_small", "no_room", "reserved", "constraints", "topology", "predicates")
        class NoRoomEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: int
            def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
        class PredicatesEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: int
            def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
        TOTAL_FIELD_NUMBER: _ClassVar[int]
        CLOSED_FIELD_NUMBER: _ClassVar[int]
        TOO_SMALL_FIELD_NUMBER: _ClassVar[int]
        NO_ROOM_FIELD_NUMBER: _ClassVar[int]
        RESERVED_FIELD_NUMBER: _ClassVar[int]
        CONSTRAINTS_FIELD_NUMBER: _ClassVar[int]
        TOPOLOGY_FIELD_NUMBER: _ClassVar[int]
        PREDICATES_FIELD_NUMBER: _ClassVar[int]
        total: int
        closed: int
        too_small: int
        no_room: _containers.ScalarMap[str, int]
        reserved: int
        constraints: int
        topology: int
        predicates: _containers.ScalarMap[str, int]
        def __init__(self, total: _Optional[int] = ..., closed: _Optional[int] = ..., too_small: _Optional[int] = ..., no_room: _Optional[_Mapping[str, int]] = ..., reserved: _Optional[int] = ..., constraints: _Optional[int] = ..., topology: _Optional[int] = ..., predicates: _Optional[_Mapping[str, int]] = ...) -> None: ...
    class Change(_message.Message):
        __slots__ = ("kind", "object", "resource", "count", "at")
        KIND_FIELD_NUMBER: _ClassVar[int]
        OBJECT_FIELD_NUMBER: _ClassVar[int]
        RESOURCE_FIELD_NUMBER: _ClassVar[int]
        COUNT_FIELD_NUMBER: _ClassVar[int]
        AT_FIELD_NUMBER: _ClassVar[int]
        kind: str
        object: str
        resource: _types_pb2.Resource
        count: int
        at: int
        def __init__(self, kind: _Optional[str] = ..., object: _Optional[str] = ..., resource: _Optional[_Union[_types_pb2.Resource, _Mapping]] = ..., count: _Optional[int] = ..., at: _Optional[int] = ...) -> None: ...
    ALLOCATION_KEYS_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    SHORT_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    CURE_FIELD_NUMBER: _ClassVar[int]
    TASK_GROUP_FIELD_NUMBER: _ClassVar[int]
    OBSTACLES_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    PREEMPTION_FIELD_NUMBER: _ClassVar[int]
    GANG_FIELD_NUMBER: _ClassVar[int]
    allocation_keys: _containers.RepeatedScalarFieldContainer[str]
    count: int
    resource: _types_pb2.Resource
    cause: str
    since: int
    object: str
    short: _types_pb2.Resource
    message: str
    cure: str
    task_group: str
    obstacles: _containers.RepeatedCompositeFieldContainer[Explanation.Obstacle]
    order: _containers.RepeatedCompositeFieldContainer[Explanation.Order]
    nodes: Explanation.Nodes
    changes: _containers.RepeatedCompositeFieldContainer[Explanation.Change]
    preemption: str
    gang: str
    def __init__(self, allocation_keys: _Optional[_Iterable[str]] = ..., count: _Optional[int] = ..., resource: _Optional[_Union[_types_pb2.Resource, _Mapping]] = ..., cause: _Optional[str] = ..., since: _Optional[int] = ..., object: _Optional[str] = ..., short: _Optional[_Union[_types_pb2.Resource, _Mapping]] = ..., message: _Optional[str] = ..., cure: _Optional[str] = ..., task_group: _Optional[str] = ..., obstacles: _Optional[_Iterable[_Union[Explanation.Obstacle, _Mapping]]] = ..., order: _Optional[_Iterable[_Union[Explanation.Order, _Mapping]]] = ..., nodes: _Optional[_Union[Explanation.Nodes, _Mapping]] = ..., changes: _Optional[_Iterable[_Union[Explanation.Change, _Mapping]]] = ..., preemption: _Optional[str] = ..., gang: _Optional[str] = ...) -> None: ...

class ListNodesRequest(_message.Message):
    __slots__ = ("rm_id", "partition_name", "node_ids", "details", "page_size", "page_token")
    RM_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_NAME_FIELD_NUMBER: _ClassVar[int]
    NODE_IDS_FIELD_NUMBER: _ClassVar[int]
    DETAILS_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    rm_id: str
    partition_name: str
    node_ids: _containers.RepeatedScalarFieldContainer[str]
    details: bool
    page_size: int
    page_token: str
    def __init__(self, rm_id: _Optional[str] = ..., partition_name: _Optional[str] = ..., node_ids: _Optional[_Iterable[str]] = ..., details: bool = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListNodesResponse(_message.Message):
    __slots__ = ("nodes", "next_page_token")
    NODES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedCompositeFieldContainer[NodeState]
    next_page_token: str
    def __init__(self, nodes: _Optional[_Iterable[_Union[NodeState, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class NodeState(_message.Message):
    __slots__ = ("node_id", "capacity", "allocated", "occupied", "available", "schedulable", "allocations", "attributes", "host_name", "rack_name", "reserved_by", "foreign_allocations", "held", "reserving_pods")
    class AttributesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class ReservingPodsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    ALLOCATED_FIELD_NUMBER: _ClassVar[int]
    OCCUPIED_FIELD_NUMBER: _ClassVar[int]
    AVAILABLE_FIELD_NUMBER: _ClassVar[int]
    SCHEDULABLE_FIELD_NUMBER: _ClassVar[int]
    ALLOCATIONS_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    HOST_NAME_FIELD_NUMBER: _ClassVar[int]
    RACK_NAME_FIELD_NUMBER: _ClassVar[int]
    RESERVED_BY_FIELD_NUMBER: _ClassVar[int]
    FOREIGN_ALLOCATIONS_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    RESERVING_PODS_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    capacity: _types_pb2.Resource
    allocated: _types_pb2.Resource
    occupied: _types_pb2.Resource
    available: _types_pb2.Resource
    schedulable: bool
    allocations: int
    attributes: _containers.ScalarMap[str, str]
    host_name: str
    rack_name: str
    reserved_by: _containers.RepeatedScalarFieldContainer[str]
    foreign_allocations: int
    held: _containers.RepeatedCompositeFieldContainer[AllocationInfo]
    reserving_pods: _containers.ScalarMap[str, str]
    def __init__(self, node_id: _Optional[str] = ..., capacity: _Optional[_Union[_types_pb2.Resource, _Mapping]] = ..., allocated: _Optional[_Union[_types_pb2.Resource, _Mapping]] = ..., occupied: _Optional[_Union[_types_pb2.Resource, _Mapping]] = ..., available: _Optional[_Union[_types_pb2.Resource, _Mapping]] = ..., schedulable: bool = ..., allocations: _Optional[int] = ..., attributes: _Optional[_Mapping[str, str]] = ..., host_name: _Optional[str] = ..., rack_name: _Optional[str] = ..., reserved_by: _Optional[_Iterable[str]] = ..., foreign_allocations: _Optional[int] = ..., held: _Optional[_Iterable[_Union[AllocationInfo, _Mapping]]] = ..., reserving_pods: _Optional[_Mapping[str, str]] = ...) -> None: ...

class ListDecisionsRequest(_message.Message):
    __slots__ = ("rm_id", "partition_name", "application_id", "queue", "node_id", "allocation_key", "kind", "id", "page_size", "page_token")
    RM_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_NAME_FIELD_NUMBER: _ClassVar[int]
    APPLICATION_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    ALLOCATION_KEY_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    rm_id: str
    partition_name: str
    application_id: str
    queue: str
    node_id: str
    allocation_key: str
    kind: str
    id: int
    page_size: int
    page_token: str
    def __init__(self, rm_id: _Optional[str] = ..., partition_name: _Optional[str] = ..., application_id: _Optional[str] = ..., queue: _Optional[str] = ..., node_id: _Optional[str] = ..., allocation_key: _Optional[str] = ..., kind: _Optional[str] = ..., id: _Optional[int] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListDecisionsResponse(_message.Message):
    __slots__ = ("decisions", "next_page_token", "kept")
    DECISIONS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    decisions: _containers.RepeatedCompositeFieldContainer[DecisionInfo]
    next_page_token: str
    kept: int
    def __init__(self, decisions: _Optional[_Iterable[_Union[DecisionInfo, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., kept: _Optional[int] = ...) -> None: ...

class DecisionInfo(_message.Message):
    __slots__ = ("id", "time", "decided_time", "kind", "ruled", "application_id", "allocation_key", "queue_name", "node_id", "levels", "tried", "passed_over", "preempted_for", "pod")
    ID_FIELD_NUMBER: _ClassVar[int]
    TIME_FIELD_NUMBER: _ClassVar[int]
    DECIDED_TIME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    RULED_FIELD_NUMBER: _ClassVar[int]
    APPLICATION_ID_FIELD_NUMBER: _ClassVar[int]
    ALLOCATION_KEY_FIELD_NUMBER: _ClassVar[int]
    QUEUE_NAME_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    LEVELS_FIELD_NUMBER: _ClassVar[int]
    TRIED_FIELD_NUMBER: _ClassVar[int]
    PASSED_OVER_FIELD_NUMBER: _ClassVar[int]
    PREEMPTED_FOR_FIELD_NUMBER: _ClassVar[int]
    POD_FIELD_NUMBER: _ClassVar[int]
    id: int
    time: int
    decided_time: int
    kind: str
    ruled: str
    application_id: str
    allocation_key: str
    queue_name: str
    node_id: str
    levels: _containers.RepeatedCompositeFieldContainer[DecisionLevel]
    tried: int
    passed_over: _containers.RepeatedCompositeFieldContainer[PassedOverNodes]
    preempted_for: str
    pod: str
    def __init__(self, id: _Optional[int] = ..., time: _Optional[int] = ..., decided_time: _Optional[int] = ..., kind: _Optional[str] = ..., ruled: _Optional[str] = ..., application_id: _Optional[str] = ..., allocation_key: _Optional[str] = ..., queue_name: _Optional[str] = ..., node_id: _Optional[str] = ..., levels: _Optional[_Iterable[_Union[DecisionLevel, _Mapping]]] = ..., tried: _Optional[int] = ..., passed_over: _Optional[_Iterable[_Union[PassedOverNodes, _Mapping]]] = ..., preempted_for: _Optional[str] = ..., pod: _Optional[str] = ...) -> None: ...

class DecisionLevel(_message.Message):
    __slots__ = ("queue", "order", "chosen", "runner_up", "rule", "runner_up_pod")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    CHOSEN_FIELD_NUMBER: _ClassVar[int]
    RUNNER_UP_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    RUNNER_UP_POD_FIELD_NUMBER: _ClassVar[int]
    queue: str
    order: str
    chosen: str
    runner_up: str
    rule: str
    runner_up_pod: str
    def __init__(self, queue: _Optional[str] = ..., order: _Optional[str] = ..., chosen: _Optional[str] = ..., runner_up: _Optional[str] = ..., rule: _Optional[str] = ..., runner_up_pod: _Optional[str] = ...) -> None: ...

class PassedOverNodes(_message.Message):
    __slots__ = ("reason", "count", "example")
    REASON_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    EXAMPLE_FIELD_NUMBER: _ClassVar[int]
    reason: str
    count: int
    example: str
    def __init__(self, reason: _Optional[str] = ..., count: _Optional[int] = ..., example: _Optional[str] = ...) -> None: ...

class ListPartitionsRequest(_message.Message):
    __slots__ = ("rm_id",)
    RM_ID_FIELD_NUMBER: _ClassVar[int]
    rm_id: str
    def __init__(self, rm_id: _Optional[str] = ...) -> None: ...

class ListPartitionsResponse(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionInfo]
    def __init__(self, partitions: _Optional[_Iterable[_Union[PartitionInfo, _Mapping]]] = ...) -> None: ...

class PartitionInfo(_message.Message):
    __slots__ = ("rm_id", "name", "state", "since_nano", "capacity", "allocated", "nodes", "allocations", "applications", "preemption_enabled", "node_sorting_policy")
    class ApplicationsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    RM_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    SINCE_NANO_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    ALLOCATED_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    ALLOCATIONS_FIELD_NUMBER: _ClassVar[int]
    APPLICATIONS_FIELD_NUMBER: _ClassVar[int]
    PREEMPTION_ENABLED_FIELD_NUMBER: _ClassVar[int]
    NODE_SORTING_POLICY_FIELD_NUMBER: _ClassVar[int]
    rm_id: str
    name: str
    state: str
    since_nano: int
    capacity: _types_pb2.Resource
    allocated: _types_pb2.Resource
    nodes: int
    allocations: int
    applications: _containers.ScalarMap[str, int]
    preemption_enabled: bool
    node_sorting_policy: str
    def __init__(self, rm_id: _Optional[str] = ..., name: _Optional[str] = ..., state: _Optional[str] = ..., since_nano: _Optional[int] = ..., capacity: _Optional[_Union[_types_pb2.Resource, _Mapping]] = ..., allocated: _Optional[_Union[_types_pb2.Resource, _Mapping]] = ..., nodes: _Optional[int] = ..., allocations: _Optional[int] = ..., applications: _Optional[_Mapping[str, int]] = ..., preemption_enabled: bool = ..., node_sorting_policy: _Optional[str] = ...) -> None: ...

class ListUsersRequest(_message.Message):
    __slots__ = ("rm_id", "partition_name", "queue", "page_size", "page_token", "names")
    RM_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_NAME_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    rm_id: str
    partition_name: str
    queue: str
    page_size: int
    page_token: str
    names: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, rm_id: _Optional[str] = ..., partition_name: _Optional[str] = ..., queue: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., names: _Optional[_Iterable[str]] = ...) -> None: ...

class ListUsersResponse(_message.Message):
    __slots__ = ("users", "next_page_token")
    USERS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    users: _containers.RepeatedCompositeFieldContainer[UserInfo]
    next_page_token: str
    def __init__(self, users: _Optional[_Iterable[_Union[UserInfo, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class UserInfo(_message.Message):
    __slots__ = ("name", "groups", "queues")
    class GroupsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    name: str
    groups: _containers.ScalarMap[str, str]
    queues: _containers.RepeatedCompositeFieldContainer[QueueUsage]
    def __init__(self, name: _Optional[str] = ..., groups: _Optional[_Mapping[str, str]] = ..., queues: _Optional[_Iterable[_Union[QueueUsage, _Mapping]]] = ...) -> None: ...

class ListGroupsRequest(_message.Message):
    __slots__ = ("rm_id", "partition_name", "queue", "page_size", "page_token", "names")
    RM_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_NAME_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    rm_id: str
    partition_name: str
    queue: str
    page_size: int
    page_token: str
    names: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, rm_id: _Optional[str] = ..., partition_name: _Optional[str] = ..., queue: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., names: _Optional[_Iterable[str]] = ...) -> None: ...

class ListGroupsResponse(_message.Message):
    __slots__ = ("groups", "next_page_token")
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedCompositeFieldContainer[GroupInfo]
    next_page_token: str
    def __init__(self, groups: _Optional[_Iterable[_Union[GroupInfo, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class GroupInfo(_message.Message):
    __slots__ = ("name", "applications", "queues")
    NAME_FIELD_NUMBER: _ClassVar[int]
    APPLICATIONS_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    name: str
    applications: _containers.RepeatedScalarFieldContainer[str]
    queues: _containers.RepeatedCompositeFieldContainer[QueueUsage]
    def __init__(self, name: _Optional[str] = ..., applications: _Optional[_Iterable[str]] = ..., queues: _Optional[_Iterable[_Union[QueueUsage, _Mapping]]] = ...) -> None: ...

class QueueUsage(_message.Message):
    __slots__ = ("queue", "allocated", "max", "running_applications", "max_running_applications")
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    ALLOCATED_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    RUNNING_APPLICATIONS_FIELD_NUMBER: _ClassVar[int]
    MAX_RUNNING_APPLICATIONS_FIELD_NUMBER: _ClassVar[int]
    queue: str
    allocated: _types_pb2.Resource
    max: _types_pb2.Resource
    running_applications: _containers.RepeatedScalarFieldContainer[str]
    max_running_applications: int
    def __init__(self, queue: _Optional[str] = ..., allocated: _Optional[_Union[_types_pb2.Resource, _Mapping]] = ..., max: _Optional[_Union[_types_pb2.Resource, _Mapping]] = ..., running_applications: _Optional[_Iterable[str]] = ..., max_running_applications: _Optional[int] = ...) -> None: ...

class StateDumpParameters(_message.Message):
    __slots__ = ("rm_id", "sections", "include_rm")
    RM_ID_FIELD_NUMBER: _ClassVar[int]
    SECTIONS_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_RM_FIELD_NUMBER: _ClassVar[int]
    rm_id: str
    sections: _containers.RepeatedScalarFieldContainer[str]
    include_rm: bool
    def __init__(self, rm_id: _Optional[str] = ..., sections: _Optional[_Iterable[str]] = ..., include_rm: bool = ...) -> None: ...

class StateDumpPart(_message.Message):
    __slots__ = ("index", "last", "data", "content_type")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    index: int
    last: bool
    data: bytes
    content_type: str
    def __init__(self, index: _Optional[int] = ..., last: bool = ..., data: _Optional[bytes] = ..., content_type: _Optional[str] = ...) -> None: ...

class SnapshotParameters(_message.Message):
    __slots__ = ("rm_id", "anonymize", "redact")
    RM_ID_FIELD_NUMBER: _ClassVar[int]
    ANONYMIZE_FIELD_NUMBER: _ClassVar[int]
    REDACT_FIELD_NUMBER: _ClassVar[int]
    rm_id: str
    anonymize: bool
    redact: bool
    def __init__(self, rm_id: _Optional[str] = ..., anonymize: bool = ..., redact: bool = ...) -> None: ...

class SnapshotPart(_message.Message):
    __slots__ = ("index", "last", "data", "figures")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    FIGURES_FIELD_NUMBER: _ClassVar[int]
    index: int
    last: bool
    data: bytes
    figures: SnapshotFigures
    def __init__(self, index: _Optional[int] = ..., last: bool = ..., data: _Optional[bytes] = ..., figures: _Optional[_Union[SnapshotFigures, _Mapping]] = ...) -> None: ...

class SnapshotFigures(_message.Message):
    __slots__ = ("bytes", "nodes", "applications", "allocations", "requests", "step")
    BYTES_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    APPLICATIONS_FIELD_NUMBER: _ClassVar[int]
    ALLOCATIONS_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    bytes: int
    nodes: int
    applications: int
    allocations: int
    requests: int
    step: int
    def __init__(self, bytes: _Optional[int] = ..., nodes: _Optional[int] = ..., applications: _Optional[int] = ..., allocations: _Optional[int] = ..., requests: _Optional[int] = ..., step: _Optional[int] = ...) -> None: ...

class AutoScalingParameters(_message.Message):
    __slots__ = ("rm_id", "partition_name", "interval_ms", "limit")
    RM_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_NAME_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_MS_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    rm_id: str
    partition_name: str
    interval_ms: int
    limit: int
    def __init__(self, rm_id: _Optional[str] = ..., partition_name: _Optional[str] = ..., interval_ms: _Optional[int] = ..., limit: _Optional[int] = ...) -> None: ...

class UtilizationReports(_message.Message):
    __slots__ = ("rm_id", "reports", "timestamp_nano")
    RM_ID_FIELD_NUMBER: _ClassVar[int]
    REPORTS_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_NANO_FIELD_NUMBER: _ClassVar[int]
    rm_id: str
    reports: _containers.RepeatedCompositeFieldContainer[_types_pb2.UtilizationReport]
    timestamp_nano: int
    def __init__(self, rm_id: _Optional[str] = ..., reports: _Optional[_Iterable[_Union[_types_pb2.UtilizationReport, _Mapping]]] = ..., timestamp_nano: _Optional[int] = ...) -> None: ...

class UtilizationSummary(_message.Message):
    __slots__ = ("accepted", "unknown")
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    accepted: int
    unknown: int
    def __init__(self, accepted: _Optional[int] = ..., unknown: _Optional[int] = ...) -> None: ...

class NodeRecommendationParameters(_message.Message):
    __slots__ = ("rm_id", "partition_name", "node_ids")
    RM_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_NAME_FIELD_NUMBER: _ClassVar[int]
    NODE_IDS_FIELD_NUMBER: _ClassVar[int]
    rm_id: str
    partition_name: str
    node_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, rm_id: _Optional[str] = ..., partition_name: _Optional[str] = ..., node_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class NodeRecommendations(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[NodeRecommendationItem]
    def __init__(self, items: _Optional[_Iterable[_Union[NodeRecommendationItem, _Mapping]]] = ...) -> None: ...

class NodeRecommendationItem(_message.Message):
    __slots__ = ("node_id", "recommendation", "kind", "timestamp_nano")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    RECOMMENDATION_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_NANO_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    recommendation: _types_pb2.NodeRecommendation
    kind: str
    timestamp_nano: int
    def __init__(self, node_id: _Optional[str] = ..., recommendation: _Optional[_Union[_types_pb2.NodeRecommendation, _Mapping]] = ..., kind: _Optional[str] = ..., timestamp_nano: _Optional[int] = ...) -> None: ...

class EventParameters(_message.Message):
    __slots__ = ("rm_id", "from_seq", "history", "types")
    RM_ID_FIELD_NUMBER: _ClassVar[int]
    FROM_SEQ_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    TYPES_FIELD_NUMBER: _ClassVar[int]
    rm_id: str
    from_seq: int
    history: int
    types: _containers.RepeatedScalarFieldContainer[_types_pb2.EventRecord.Type]
    def __init__(self, rm_id: _Optional[str] = ..., from_seq: _Optional[int] = ..., history: _Optional[int] = ..., types: _Optional[_Iterable[_Union[_types_pb2.EventRecord.Type, str]]] = ...) -> None: ...

class EventInfo(_message.Message):
    __slots__ = ("record", "pod")
    RECORD_FIELD_NUMBER: _ClassVar[int]
    POD_FIELD_NUMBER: _ClassVar[int]
    record: _types_pb2.EventRecord
    pod: str
    def __init__(self, record: _Optional[_Union[_types_pb2.EventRecord, _Mapping]] = ..., pod: _Optional[str] = ...) -> None: ...
