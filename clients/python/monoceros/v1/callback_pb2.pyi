from monoceros.si.v1 import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Capability(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CAPABILITY_UNSPECIFIED: _ClassVar[Capability]
    PREDICATES: _ClassVar[Capability]
    PREEMPTION_PREDICATES: _ClassVar[Capability]
    EVENTS: _ClassVar[Capability]
    CONTAINER_STATES: _ClassVar[Capability]
    STATE_DUMP: _ClassVar[Capability]
    CACHE_SYNC: _ClassVar[Capability]
    CONFIG_STORE: _ClassVar[Capability]
    HOLD_PREDICATES: _ClassVar[Capability]

class AbsentPolicy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ABSENT_UNSPECIFIED: _ClassVar[AbsentPolicy]
    ABSENT_PASS: _ClassVar[AbsentPolicy]
    ABSENT_FAIL: _ClassVar[AbsentPolicy]
    ABSENT_HOLD: _ClassVar[AbsentPolicy]

class EvalMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EVAL_UNSPECIFIED: _ClassVar[EvalMode]
    FIRST_FIT: _ClassVar[EvalMode]
    ALL: _ClassVar[EvalMode]

class Scope(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SCOPE_UNSPECIFIED: _ClassVar[Scope]
    SCOPE_NODE: _ClassVar[Scope]
    SCOPE_TOPOLOGY: _ClassVar[Scope]
    SCOPE_STATIC: _ClassVar[Scope]

class Outcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OUTCOME_UNSPECIFIED: _ClassVar[Outcome]
    EVALUATED: _ClassVar[Outcome]
    UNKNOWN_ALLOCATION: _ClassVar[Outcome]
    SHED: _ClassVar[Outcome]
    ERROR: _ClassVar[Outcome]
    STALE: _ClassVar[Outcome]
CAPABILITY_UNSPECIFIED: Capability
PREDICATES: Capability
PREEMPTION_PREDICATES: Capability
EVENTS: Capability
CONTAINER_STATES: Capability
STATE_DUMP: Capability
CACHE_SYNC: Capability
CONFIG_STORE: Capability
HOLD_PREDICATES: Capability
ABSENT_UNSPECIFIED: AbsentPolicy
ABSENT_PASS: AbsentPolicy
ABSENT_FAIL: AbsentPolicy
ABSENT_HOLD: AbsentPolicy
EVAL_UNSPECIFIED: EvalMode
FIRST_FIT: EvalMode
ALL: EvalMode
SCOPE_UNSPECIFIED: Scope
SCOPE_NODE: Scope
SCOPE_TOPOLOGY: Scope
SCOPE_STATIC: Scope
OUTCOME_UNSPECIFIED: Outcome
EVALUATED: Outcome
UNKNOWN_ALLOCATION: Outcome
SHED: Outcome
ERROR: Outcome
STALE: Outcome

class ShimMessage(_message.Message):
    __slots__ = ("hello", "predicate_results", "preemption_results", "state_dump", "cache_sync_ack", "invalidate", "event_credit", "heartbeat", "config_save", "goodbye")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    PREDICATE_RESULTS_FIELD_NUMBER: _ClassVar[int]
    PREEMPTION_RESULTS_FIELD_NUMBER: _ClassVar[int]
    STATE_DUMP_FIELD_NUMBER: _ClassVar[int]
    CACHE_SYNC_ACK_FIELD_NUMBER: _ClassVar[int]
    INVALIDATE_FIELD_NUMBER: _ClassVar[int]
    EVENT_CREDIT_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    CONFIG_SAVE_FIELD_NUMBER: _ClassVar[int]
    GOODBYE_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    predicate_results: PredicateResults
    preemption_results: PreemptionResults
    state_dump: StateDumpChunk
    cache_sync_ack: CacheSyncAck
    invalidate: Invalidate
    event_credit: EventCredit
    heartbeat: Heartbeat
    config_save: ConfigSaveResult
    goodbye: Goodbye
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., predicate_results: _Optional[_Union[PredicateResults, _Mapping]] = ..., preemption_results: _Optional[_Union[PreemptionResults, _Mapping]] = ..., state_dump: _Optional[_Union[StateDumpChunk, _Mapping]] = ..., cache_sync_ack: _Optional[_Union[CacheSyncAck, _Mapping]] = ..., invalidate: _Optional[_Union[Invalidate, _Mapping]] = ..., event_credit: _Optional[_Union[EventCredit, _Mapping]] = ..., heartbeat: _Optional[_Union[Heartbeat, _Mapping]] = ..., config_save: _Optional[_Union[ConfigSaveResult, _Mapping]] = ..., goodbye: _Optional[_Union[Goodbye, _Mapping]] = ...) -> None: ...

class CoreMessage(_message.Message):
    __slots__ = ("welcome", "predicate_batch", "preemption_batch", "state_dump", "cache_sync", "node_dictionary", "event_batch", "heartbeat", "config_save", "container_states", "cancel", "goodbye", "bundle_places")
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    PREDICATE_BATCH_FIELD_NUMBER: _ClassVar[int]
    PREEMPTION_BATCH_FIELD_NUMBER: _ClassVar[int]
    STATE_DUMP_FIELD_NUMBER: _ClassVar[int]
    CACHE_SYNC_FIELD_NUMBER: _ClassVar[int]
    NODE_DICTIONARY_FIELD_NUMBER: _ClassVar[int]
    EVENT_BATCH_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    CONFIG_SAVE_FIELD_NUMBER: _ClassVar[int]
    CONTAINER_STATES_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    GOODBYE_FIELD_NUMBER: _ClassVar[int]
    BUNDLE_PLACES_FIELD_NUMBER: _ClassVar[int]
    welcome: Welcome
    predicate_batch: PredicateBatch
    preemption_batch: PreemptionBatch
    state_dump: StateDumpRequest
    cache_sync: CacheSync
    node_dictionary: NodeDictionary
    event_batch: EventBatch
    heartbeat: Heartbeat
    config_save: ConfigSaveRequest
    container_states: ContainerStateBatch
    cancel: CancelBatch
    goodbye: Goodbye
    bundle_places: BundlePlaces
    def __init__(self, welcome: _Optional[_Union[Welcome, _Mapping]] = ..., predicate_batch: _Optional[_Union[PredicateBatch, _Mapping]] = ..., preemption_batch: _Optional[_Union[PreemptionBatch, _Mapping]] = ..., state_dump: _Optional[_Union[StateDumpRequest, _Mapping]] = ..., cache_sync: _Optional[_Union[CacheSync, _Mapping]] = ..., node_dictionary: _Optional[_Union[NodeDictionary, _Mapping]] = ..., event_batch: _Optional[_Union[EventBatch, _Mapping]] = ..., heartbeat: _Optional[_Union[Heartbeat, _Mapping]] = ..., config_save: _Optional[_Union[ConfigSaveRequest, _Mapping]] = ..., container_states: _Optional[_Union[ContainerStateBatch, _Mapping]] = ..., cancel: _Optional[_Union[CancelBatch, _Mapping]] = ..., goodbye: _Optional[_Union[Goodbye, _Mapping]] = ..., bundle_places: _Optional[_Union[BundlePlaces, _Mapping]] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("rm_id", "session_id", "instance_id", "capabilities", "protocol_minor", "max_inflight_batches", "max_nodes_per_batch", "max_queries_per_batch", "event_types", "last_event_seq", "last_cache_seq", "predicates_absent", "predicate_timeout_ms", "initial_event_credit", "max_message_bytes", "confirm_assume")
    RM_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    CAPABILITIES_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_MINOR_FIELD_NUMBER: _ClassVar[int]
    MAX_INFLIGHT_BATCHES_FIELD_NUMBER: _ClassVar[int]
    MAX_NODES_PER_BATCH_FIELD_NUMBER: _ClassVar[int]
    MAX_QUERIES_PER_BATCH_FIELD_NUMBER: _ClassVar[int]
    EVENT_TYPES_FIELD_NUMBER: _ClassVar[int]
    LAST_EVENT_SEQ_FIELD_NUMBER: _ClassVar[int]
    LAST_CACHE_SEQ_FIELD_NUMBER: _ClassVar[int]
    PREDICATES_ABSENT_FIELD_NUMBER: _ClassVar[int]
    PREDICATE_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    INITIAL_EVENT_CREDIT_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    CONFIRM_ASSUME_FIELD_NUMBER: _ClassVar[int]
    rm_id: str
    session_id: int
    instance_id: str
    capabilities: _containers.RepeatedScalarFieldContainer[Capability]
    protocol_minor: int
    max_inflight_batches: int
    max_nodes_per_batch: int
    max_queries_per_batch: int
    event_types: _containers.RepeatedScalarFieldContainer[_types_pb2.EventRecord.Type]
    last_event_seq: int
    last_cache_seq: int
    predicates_absent: AbsentPolicy
    predicate_timeout_ms: int
    initial_event_credit: int
    max_message_bytes: int
    confirm_assume: bool
    def __init__(self, rm_id: _Optional[str] = ..., session_id: _Optional[int] = ..., instance_id: _Optional[str] = ..., capabilities: _Optional[_Iterable[_Union[Capability, str]]] = ..., protocol_minor: _Optional[int] = ..., max_inflight_batches: _Optional[int] = ..., max_nodes_per_batch: _Optional[int] = ..., max_queries_per_batch: _Optional[int] = ..., event_types: _Optional[_Iterable[_Union[_types_pb2.EventRecord.Type, str]]] = ..., last_event_seq: _Optional[int] = ..., last_cache_seq: _Optional[int] = ..., predicates_absent: _Optional[_Union[AbsentPolicy, str]] = ..., predicate_timeout_ms: _Optional[int] = ..., initial_event_credit: _Optional[int] = ..., max_message_bytes: _Optional[int] = ..., confirm_assume: bool = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("scheduler_id", "session_id", "attach_id", "protocol_minor", "max_inflight_batches", "max_nodes_per_batch", "max_queries_per_batch", "predicate_timeout_ms", "predicates_absent", "heartbeat_ms", "event_seq", "cache_seq", "max_message_bytes")
    SCHEDULER_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    ATTACH_ID_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_MINOR_FIELD_NUMBER: _ClassVar[int]
    MAX_INFLIGHT_BATCHES_FIELD_NUMBER: _ClassVar[int]
    MAX_NODES_PER_BATCH_FIELD_NUMBER: _ClassVar[int]
    MAX_QUERIES_PER_BATCH_FIELD_NUMBER: _ClassVar[int]
    PREDICATE_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    PREDICATES_ABSENT_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_MS_FIELD_NUMBER: _ClassVar[int]
    EVENT_SEQ_FIELD_NUMBER: _ClassVar[int]
    CACHE_SEQ_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    scheduler_id: str
    session_id: int
    attach_id: int
    protocol_minor: int
    max_inflight_batches: int
    max_nodes_per_batch: int
    max_queries_per_batch: int
    predicate_timeout_ms: int
    predicates_absent: AbsentPolicy
    heartbeat_ms: int
    event_seq: int
    cache_seq: int
    max_message_bytes: int
    def __init__(self, scheduler_id: _Optional[str] = ..., session_id: _Optional[int] = ..., attach_id: _Optional[int] = ..., protocol_minor: _Optional[int] = ..., max_inflight_batches: _Optional[int] = ..., max_nodes_per_batch: _Optional[int] = ..., max_queries_per_batch: _Optional[int] = ..., predicate_timeout_ms: _Optional[int] = ..., predicates_absent: _Optional[_Union[AbsentPolicy, str]] = ..., heartbeat_ms: _Optional[int] = ..., event_seq: _Optional[int] = ..., cache_seq: _Optional[int] = ..., max_message_bytes: _Optional[int] = ...) -> None: ...

class NodeDictionary(_message.Message):
    __slots__ = ("dict_version", "reset", "add", "remove")
    DICT_VERSION_FIELD_NUMBER: _ClassVar[int]
    RESET_FIELD_NUMBER: _ClassVar[int]
    ADD_FIELD_NUMBER: _ClassVar[int]
    REMOVE_FIELD_NUMBER: _ClassVar[int]
    dict_version: int
    reset: bool
    add: _containers.RepeatedCompositeFieldContainer[NodeDictEntry]
    remove: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, dict_version: _Optional[int] = ..., reset: bool = ..., add: _Optional[_Iterable[_Union[NodeDictEntry, _Mapping]]] = ..., remove: _Optional[_Iterable[int]] = ...) -> None: ...

class NodeDictEntry(_message.Message):
    __slots__ = ("index", "node_id")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    index: int
    node_id: str
    def __init__(self, index: _Optional[int] = ..., node_id: _Optional[str] = ...) -> None: ...

class PredicateBatch(_message.Message):
    __slots__ = ("batch_id", "cache_seq", "dict_version", "deadline_ms", "queries")
    BATCH_ID_FIELD_NUMBER: _ClassVar[int]
    CACHE_SEQ_FIELD_NUMBER: _ClassVar[int]
    DICT_VERSION_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_MS_FIELD_NUMBER: _ClassVar[int]
    QUERIES_FIELD_NUMBER: _ClassVar[int]
    batch_id: int
    cache_seq: int
    dict_version: int
    deadline_ms: int
    queries: _containers.RepeatedCompositeFieldContainer[PredicateQuery]
    def __init__(self, batch_id: _Optional[int] = ..., cache_seq: _Optional[int] = ..., dict_version: _Optional[int] = ..., deadline_ms: _Optional[int] = ..., queries: _Optional[_Iterable[_Union[PredicateQuery, _Mapping]]] = ...) -> None: ...

class PredicateQuery(_message.Message):
    __slots__ = ("query_id", "allocation_key", "application_id", "allocate", "mode", "want", "node_index", "node_ids", "assume", "bundle_id", "task_group_name")
    QUERY_ID_FIELD_NUMBER: _ClassVar[int]
    ALLOCATION_KEY_FIELD_NUMBER: _ClassVar[int]
    APPLICATION_ID_FIELD_NUMBER: _ClassVar[int]
    ALLOCATE_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    WANT_FIELD_NUMBER: _ClassVar[int]
    NODE_INDEX_FIELD_NUMBER: _ClassVar[int]
    NODE_IDS_FIELD_NUMBER: _ClassVar[int]
    ASSUME_FIELD_NUMBER: _ClassVar[int]
    BUNDLE_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_GROUP_NAME_FIELD_NUMBER: _ClassVar[int]
    query_id: int
    allocation_key: str
    application_id: str
    allocate: bool
    mode: EvalMode
    want: int
    node_index: _containers.RepeatedScalarFieldContainer[int]
    node_ids: _containers.RepeatedScalarFieldContainer[str]
    assume: bool
    bundle_id: int
    task_group_name: str
    def __init__(self, query_id: _Optional[int] = ..., allocation_key: _Optional[str] = ..., application_id: _Optional[str] = ..., allocate: bool = ..., mode: _Optional[_Union[EvalMode, str]] = ..., want: _Optional[int] = ..., node_index: _Optional[_Iterable[int]] = ..., node_ids: _Optional[_Iterable[str]] = ..., assume: bool = ..., bundle_id: _Optional[int] = ..., task_group_name: _Optional[str] = ...) -> None: ...

class BundlePlaces(_message.Message):
    __slots__ = ("bundle_id", "application_id", "over", "places")
    BUNDLE_ID_FIELD_NUMBER: _ClassVar[int]
    APPLICATION_ID_FIELD_NUMBER: _ClassVar[int]
    OVER_FIELD_NUMBER: _ClassVar[int]
    PLACES_FIELD_NUMBER: _ClassVar[int]
    bundle_id: int
    application_id: str
    over: int
    places: _containers.RepeatedCompositeFieldContainer[BundlePlace]
    def __init__(self, bundle_id: _Optional[int] = ..., application_id: _Optional[str] = ..., over: _Optional[int] = ..., places: _Optional[_Iterable[_Union[BundlePlace, _Mapping]]] = ...) -> None: ...

class BundlePlace(_message.Message):
    __slots__ = ("member", "allocation_key", "node_index", "task_group_name")
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    ALLOCATION_KEY_FIELD_NUMBER: _ClassVar[int]
    NODE_INDEX_FIELD_NUMBER: _ClassVar[int]
    TASK_GROUP_NAME_FIELD_NUMBER: _ClassVar[int]
    member: int
    allocation_key: str
    node_index: int
    task_group_name: str
    def __init__(self, member: _Optional[int] = ..., allocation_key: _Optional[str] = ..., node_index: _Optional[int] = ..., task_group_name: _Optional[str] = ...) -> None: ...

class PredicateResults(_message.Message):
    __slots__ = ("batch_id", "cache_seq", "last", "results")
    BATCH_ID_FIELD_NUMBER: _ClassVar[int]
    CACHE_SEQ_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    batch_id: int
    cache_seq: int
    last: bool
    results: _containers.RepeatedCompositeFieldContainer[PredicateResult]
    def __init__(self, batch_id: _Optional[int] = ..., cache_seq: _Optional[int] = ..., last: bool = ..., results: _Optional[_Iterable[_Union[PredicateResult, _Mapping]]] = ...) -> None: ...

class PredicateResult(_message.Message):
    __slots__ = ("query_id", "outcome", "evaluated", "pass_bitmap", "failures", "scope", "valid_ms", "error", "elsewhere")
    QUERY_ID_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    EVALUATED_FIELD_NUMBER: _ClassVar[int]
    PASS_BITMAP_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    VALID_MS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    ELSEWHERE_FIELD_NUMBER: _ClassVar[int]
    query_id: int
    outcome: Outcome
    evaluated: int
    pass_bitmap: bytes
    failures: _containers.RepeatedCompositeFieldContainer[FailureGroup]
    scope: Scope
    valid_ms: int
    error: str
    elsewhere: Elsewhere
    def __init__(self, query_id: _Optional[int] = ..., outcome: _Optional[_Union[Outcome, str]] = ..., evaluated: _Optional[int] = ..., pass_bitmap: _Optional[bytes] = ..., failures: _Optional[_Iterable[_Union[FailureGroup, _Mapping]]] = ..., scope: _Optional[_Union[Scope, str]] = ..., valid_ms: _Optional[int] = ..., error: _Optional[str] = ..., elsewhere: _Optional[_Union[Elsewhere, _Mapping]] = ...) -> None: ...

class Elsewhere(_message.Message):
    __slots__ = ("depends_on", "affects")
    DEPENDS_ON_FIELD_NUMBER: _ClassVar[int]
    AFFECTS_FIELD_NUMBER: _ClassVar[int]
    depends_on: _containers.RepeatedScalarFieldContainer[int]
    affects: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, depends_on: _Optional[_Iterable[int]] = ..., affects: _Optional[_Iterable[int]] = ...) -> None: ...

class FailureGroup(_message.Message):
    __slots__ = ("plugin", "reason", "fail_bitmap", "count")
    PLUGIN_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    FAIL_BITMAP_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    plugin: str
    reason: str
    fail_bitmap: bytes
    count: int
    def __init__(self, plugin: _Optional[str] = ..., reason: _Optional[str] = ..., fail_bitmap: _Optional[bytes] = ..., count: _Optional[int] = ...) -> None: ...

class PreemptionBatch(_message.Message):
    __slots__ = ("batch_id", "cache_seq", "dict_version", "deadline_ms", "queries")
    BATCH_ID_FIELD_NUMBER: _ClassVar[int]
    CACHE_SEQ_FIELD_NUMBER: _ClassVar[int]
    DICT_VERSION_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_MS_FIELD_NUMBER: _ClassVar[int]
    QUERIES_FIELD_NUMBER: _ClassVar[int]
    batch_id: int
    cache_seq: int
    dict_version: int
    deadline_ms: int
    queries: _containers.RepeatedCompositeFieldContainer[PreemptionQuery]
    def __init__(self, batch_id: _Optional[int] = ..., cache_seq: _Optional[int] = ..., dict_version: _Optional[int] = ..., deadline_ms: _Optional[int] = ..., queries: _Optional[_Iterable[_Union[PreemptionQuery, _Mapping]]] = ...) -> None: ...

class PreemptionQuery(_message.Message):
    __slots__ = ("query_id", "node_index", "args")
    QUERY_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_INDEX_FIELD_NUMBER: _ClassVar[int]
    ARGS_FIELD_NUMBER: _ClassVar[int]
    query_id: int
    node_index: int
    args: _types_pb2.PreemptionPredicatesArgs
    def __init__(self, query_id: _Optional[int] = ..., node_index: _Optional[int] = ..., args: _Optional[_Union[_types_pb2.PreemptionPredicatesArgs, _Mapping]] = ...) -> None: ...

class PreemptionResults(_message.Message):
    __slots__ = ("batch_id", "cache_seq", "last", "results")
    BATCH_ID_FIELD_NUMBER: _ClassVar[int]
    CACHE_SEQ_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    batch_id: int
    cache_seq: int
    last: bool
    results: _containers.RepeatedCompositeFieldContainer[PreemptionResult]
    def __init__(self, batch_id: _Optional[int] = ..., cache_seq: _Optional[int] = ..., last: bool = ..., results: _Optional[_Iterable[_Union[PreemptionResult, _Mapping]]] = ...) -> None: ...

class PreemptionResult(_message.Message):
    __slots__ = ("query_id", "outcome", "response", "error")
    QUERY_ID_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    query_id: int
    outcome: Outcome
    response: _types_pb2.PreemptionPredicatesResponse
    error: str
    def __init__(self, query_id: _Optional[int] = ..., outcome: _Optional[_Union[Outcome, str]] = ..., response: _Optional[_Union[_types_pb2.PreemptionPredicatesResponse, _Mapping]] = ..., error: _Optional[str] = ...) -> None: ...

class CancelBatch(_message.Message):
    __slots__ = ("batch_ids",)
    BATCH_IDS_FIELD_NUMBER: _ClassVar[int]
    batch_ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, batch_ids: _Optional[_Iterable[int]] = ...) -> None: ...

class CacheSync(_message.Message):
    __slots__ = ("cache_seq", "snapshot", "snapshot_end", "args")
    CACHE_SEQ_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_END_FIELD_NUMBER: _ClassVar[int]
    ARGS_FIELD_NUMBER: _ClassVar[int]
    cache_seq: int
    snapshot: bool
    snapshot_end: bool
    args: CacheSyncArgs
    def __init__(self, cache_seq: _Optional[int] = ..., snapshot: bool = ..., snapshot_end: bool = ..., args: _Optional[_Union[CacheSyncArgs, _Mapping]] = ...) -> None: ...

class CacheSyncArgs(_message.Message):
    __slots__ = ("assumedAllocations", "forgetAllocations")
    ASSUMEDALLOCATIONS_FIELD_NUMBER: _ClassVar[int]
    FORGETALLOCATIONS_FIELD_NUMBER: _ClassVar[int]
    assumedAllocations: _containers.RepeatedCompositeFieldContainer[AssumedAllocation]
    forgetAllocations: _containers.RepeatedCompositeFieldContainer[ForgotAllocation]
    def __init__(self, assumedAllocations: _Optional[_Iterable[_Union[AssumedAllocation, _Mapping]]] = ..., forgetAllocations: _Optional[_Iterable[_Union[ForgotAllocation, _Mapping]]] = ...) -> None: ...

class AssumedAllocation(_message.Message):
    __slots__ = ("allocationKey", "nodeID", "applicationID")
    ALLOCATIONKEY_FIELD_NUMBER: _ClassVar[int]
    NODEID_FIELD_NUMBER: _ClassVar[int]
    APPLICATIONID_FIELD_NUMBER: _ClassVar[int]
    allocationKey: str
    nodeID: str
    applicationID: str
    def __init__(self, allocationKey: _Optional[str] = ..., nodeID: _Optional[str] = ..., applicationID: _Optional[str] = ...) -> None: ...

class ForgotAllocation(_message.Message):
    __slots__ = ("allocationKey", "applicationID")
    ALLOCATIONKEY_FIELD_NUMBER: _ClassVar[int]
    APPLICATIONID_FIELD_NUMBER: _ClassVar[int]
    allocationKey: str
    applicationID: str
    def __init__(self, allocationKey: _Optional[str] = ..., applicationID: _Optional[str] = ...) -> None: ...

class CacheSyncAck(_message.Message):
    __slots__ = ("cache_seq", "failures")
    CACHE_SEQ_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    cache_seq: int
    failures: _containers.RepeatedCompositeFieldContainer[CacheSyncFailure]
    def __init__(self, cache_seq: _Optional[int] = ..., failures: _Optional[_Iterable[_Union[CacheSyncFailure, _Mapping]]] = ...) -> None: ...

class CacheSyncFailure(_message.Message):
    __slots__ = ("allocation_key", "reason", "retryable", "application_id")
    ALLOCATION_KEY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    RETRYABLE_FIELD_NUMBER: _ClassVar[int]
    APPLICATION_ID_FIELD_NUMBER: _ClassVar[int]
    allocation_key: str
    reason: str
    retryable: bool
    application_id: str
    def __init__(self, allocation_key: _Optional[str] = ..., reason: _Optional[str] = ..., retryable: bool = ..., application_id: _Optional[str] = ...) -> None: ...

class Invalidate(_message.Message):
    __slots__ = ("node_ids", "allocation_keys", "all")
    NODE_IDS_FIELD_NUMBER: _ClassVar[int]
    ALLOCATION_KEYS_FIELD_NUMBER: _ClassVar[int]
    ALL_FIELD_NUMBER: _ClassVar[int]
    node_ids: _containers.RepeatedScalarFieldContainer[str]
    allocation_keys: _containers.RepeatedScalarFieldContainer[str]
    all: bool
    def __init__(self, node_ids: _Optional[_Iterable[str]] = ..., allocation_keys: _Optional[_Iterable[str]] = ..., all: bool = ...) -> None: ...

class EventBatch(_message.Message):
    __slots__ = ("first_seq", "last_seq", "dropped", "events")
    FIRST_SEQ_FIELD_NUMBER: _ClassVar[int]
    LAST_SEQ_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    first_seq: int
    last_seq: int
    dropped: int
    events: _containers.RepeatedCompositeFieldContainer[_types_pb2.EventRecord]
    def __init__(self, first_seq: _Optional[int] = ..., last_seq: _Optional[int] = ..., dropped: _Optional[int] = ..., events: _Optional[_Iterable[_Union[_types_pb2.EventRecord, _Mapping]]] = ...) -> None: ...

class EventCredit(_message.Message):
    __slots__ = ("add", "ack_seq")
    ADD_FIELD_NUMBER: _ClassVar[int]
    ACK_SEQ_FIELD_NUMBER: _ClassVar[int]
    add: int
    ack_seq: int
    def __init__(self, add: _Optional[int] = ..., ack_seq: _Optional[int] = ...) -> None: ...

class ContainerStateBatch(_message.Message):
    __slots__ = ("states",)
    STATES_FIELD_NUMBER: _ClassVar[int]
    states: _containers.RepeatedCompositeFieldContainer[_types_pb2.UpdateContainerSchedulingStateRequest]
    def __init__(self, states: _Optional[_Iterable[_Union[_types_pb2.UpdateContainerSchedulingStateRequest, _Mapping]]] = ...) -> None: ...

class StateDumpRequest(_message.Message):
    __slots__ = ("request_id", "deadline_ms", "max_chunk_bytes")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_MS_FIELD_NUMBER: _ClassVar[int]
    MAX_CHUNK_BYTES_FIELD_NUMBER: _ClassVar[int]
    request_id: int
    deadline_ms: int
    max_chunk_bytes: int
    def __init__(self, request_id: _Optional[int] = ..., deadline_ms: _Optional[int] = ..., max_chunk_bytes: _Optional[int] = ...) -> None: ...

class StateDumpChunk(_message.Message):
    __slots__ = ("request_id", "index", "last", "data", "error", "content_type")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    request_id: int
    index: int
    last: bool
    data: bytes
    error: str
    content_type: str
    def __init__(self, request_id: _Optional[int] = ..., index: _Optional[int] = ..., last: bool = ..., data: _Optional[bytes] = ..., error: _Optional[str] = ..., content_type: _Optional[str] = ...) -> None: ...

class ConfigSaveRequest(_message.Message):
    __slots__ = ("request_id", "config", "extra_config", "deadline_ms")
    class ExtraConfigEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    EXTRA_CONFIG_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_MS_FIELD_NUMBER: _ClassVar[int]
    request_id: int
    config: str
    extra_config: _containers.ScalarMap[str, str]
    deadline_ms: int
    def __init__(self, request_id: _Optional[int] = ..., config: _Optional[str] = ..., extra_config: _Optional[_Mapping[str, str]] = ..., deadline_ms: _Optional[int] = ...) -> None: ...

class ConfigSaveResult(_message.Message):
    __slots__ = ("request_id", "success", "old_config", "reason")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    OLD_CONFIG_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    request_id: int
    success: bool
    old_config: str
    reason: str
    def __init__(self, request_id: _Optional[int] = ..., success: bool = ..., old_config: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class Heartbeat(_message.Message):
    __slots__ = ("nonce", "reply", "cache_seq", "queued_batches", "timestamp_nano")
    NONCE_FIELD_NUMBER: _ClassVar[int]
    REPLY_FIELD_NUMBER: _ClassVar[int]
    CACHE_SEQ_FIELD_NUMBER: _ClassVar[int]
    QUEUED_BATCHES_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_NANO_FIELD_NUMBER: _ClassVar[int]
    nonce: int
    reply: bool
    cache_seq: int
    queued_batches: int
    timestamp_nano: int
    def __init__(self, nonce: _Optional[int] = ..., reply: bool = ..., cache_seq: _Optional[int] = ..., queued_batches: _Optional[int] = ..., timestamp_nano: _Optional[int] = ...) -> None: ...

class Goodbye(_message.Message):
    __slots__ = ("reason", "reconnect_after_ms", "resync")
    REASON_FIELD_NUMBER: _ClassVar[int]
    RECONNECT_AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    RESYNC_FIELD_NUMBER: _ClassVar[int]
    reason: str
    reconnect_after_ms: int
    resync: bool
    def __init__(self, reason: _Optional[str] = ..., reconnect_after_ms: _Optional[int] = ..., resync: bool = ...) -> None: ...
