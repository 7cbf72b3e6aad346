// What REST answers, as docs/rest.md tells it: the fields that the page reads. What is empty, zero or
// false is left out there, so most fields are optional here.

/** Amounts by name: thousandths of cores, bytes, or pieces. */
export type Resources = Record<string, number>;

/** Nanoseconds since the epoch. */
export type Nanos = number;

export interface Partition {
  clusterId: string;
  name: string;
  capacity: { capacity?: Resources; usedCapacity?: Resources; utilization?: Resources };
  nodeSortingPolicy: { type: string };
  preemptionEnabled: boolean;
  quotaPreemptionEnabled: boolean;
  totalNodes: number;
  applications: Record<string, number>;
  totalContainers?: number;
  state?: string;
  lastStateTransitionTime?: Nanos;
  /** How many decisions are kept at most; left out by a service that knows of none. */
  decisionsKept?: number;
}

export interface Cluster {
  startTime?: Nanos;
  rmBuildInformation?: Record<string, string>[];
  partition: string;
}

export interface Queue {
  queuename: string;
  status?: string;
  pendingResource?: Resources;
  maxResource?: Resources;
  guaranteedResource?: Resources;
  allocatedResource?: Resources;
  preemptingResource?: Resources;
  headroom?: Resources;
  isLeaf: boolean;
  isManaged: boolean;
  properties?: Record<string, string>;
  parent?: string;
  template?: { maxApplications?: number; maxResource?: Resources; guaranteedResource?: Resources };
  children?: Queue[];
  childNames?: string[];
  maxRunningApps?: number;
  runningApps?: number;
  currentPriority: number;
  allocatingAcceptedApps?: string[];
  sortingPolicy?: string;
  prioritySorting: boolean;
  preemptionEnabled: boolean;
  isPreemptionFence: boolean;
  preemptionDelay: string;
  quotaPreemptionDelay: string;
  isPriorityFence: boolean;
  priorityOffset?: number;
  isQuotaPreemptionRunning: boolean;
}

export interface Ask {
  allocationKey: string;
  allocationTags?: Record<string, string>;
  requestTime?: Nanos;
  resource?: Resources;
  priority: string;
  requiredNodeId?: string;
  placeholder?: boolean;
  taskGroupName?: string;
  allocationLog?: { message: string; lastOccurrence: Nanos; count: number }[];
  triggeredPreemption?: boolean;
  originator?: boolean;
  schedulingAttempted?: boolean;
  triggeredScaleUp?: boolean;
  internal?: boolean;
  pendingCount?: number;
}

export interface Allocation {
  allocationKey: string;
  uuid?: string;
  allocationTags?: Record<string, string>;
  requestTime?: Nanos;
  allocationTime?: Nanos;
  allocationDelay?: number;
  resource?: Resources;
  priority: string;
  nodeId?: string;
  applicationId?: string;
  placeholder?: boolean;
  placeholderUsed?: boolean;
  taskGroupName?: string;
  internal?: boolean;
  preempted?: boolean;
  preemptedFor?: string;
  originator?: boolean;
}

export interface Application {
  applicationID: string;
  usedResource?: Resources;
  maxUsedResource?: Resources;
  pendingResource?: Resources;
  queueName: string;
  submissionTime?: Nanos;
  finishedTime?: Nanos;
  requests?: Ask[];
  allocations?: Allocation[];
  applicationState?: string;
  user?: string;
  groups?: string[];
  rejectedMessage?: string;
  stateLog?: { time?: Nanos; applicationState?: string }[];
  placeholderData?: TaskGroup[];
  hasReserved?: boolean;
  reservations?: string[];
  /** Milliseconds since the epoch. */
  startTime?: number;
  resourceHistory: {
    resourceUsage?: Record<string, Resources>;
    preemptedResource?: Record<string, Resources>;
    placeholderResource?: Record<string, Resources>;
  };
  backoffDeadline?: string;
  /** Of a brief row. */
  allocationCount?: number;
  /** Of a brief row: how many allocations its requests still want. */
  pendingCount?: number;
  /** Of a brief row: what the request that was tried last ran into. */
  waitsFor?: string;
}

export interface TaskGroup {
  taskGroupName?: string;
  count?: number;
  minResource?: Resources;
  replaced?: number;
  timedout?: number;
}

export interface Node {
  nodeID: string;
  hostName?: string;
  rackName?: string;
  attributes: Record<string, string>;
  capacity?: Resources;
  allocated?: Resources;
  occupied?: Resources;
  available?: Resources;
  utilized?: Resources;
  allocations?: Allocation[];
  foreignAllocations?: Allocation[];
  schedulable: boolean;
  isReserved: boolean;
  reservations?: string[];
  /** Namespace and name of those that are pods, by key. */
  reservingPods?: Record<string, string>;
  /** Of a brief row. */
  allocationCount?: number;
}

export interface Usage {
  queuePath: string;
  resourceUsage?: Resources;
  runningApplications?: string[];
  maxResources?: Resources;
  maxApplications?: number;
  children?: Usage[];
}

export interface User {
  userName: string;
  groups?: Record<string, string>;
  queues: Usage;
}

export interface Group {
  groupName: string;
  applications?: string[];
  queues: Usage;
}

export interface Explanation {
  allocationKeys: string[];
  count: number;
  resource?: Resources;
  cause: string;
  since?: Nanos;
  object?: string;
  short?: Resources;
  message: string;
  cure?: string;
  preemption?: string;
  taskGroup?: string;
  obstacles: { cause: string; object?: string; short?: Resources; message: string }[];
  order: { level: string; in: string; rank: number; of: number; first: string }[];
  nodes: {
    total: number;
    closed: number;
    tooSmall: number;
    noRoom: Record<string, number>;
    reserved: number;
    constraints: number;
    topology: number;
    predicates: Record<string, number>;
  };
}

export interface EventRecord {
  type?: number;
  objectID?: string;
  message?: string;
  timestampNano?: Nanos;
  eventChangeType?: number;
  eventChangeDetail?: number;
  referenceID?: string;
  /** Namespace and name of the pod that it is about. */
  pod?: string;
  resource?: { resources?: Record<string, { value?: number }> };
}

export interface EventBatch {
  InstanceUUID: string;
  LowestID: number;
  HighestID: number;
  EventRecords: EventRecord[] | null;
}

export interface HealthCheck {
  Name: string;
  Succeeded: boolean;
  /** What was found came from outside: messages that were refused, nodes that shrank. */
  FromOutside?: boolean;
  Description: string;
  DiagnosisMessage: string;
}

export interface Health {
  Healthy: boolean;
  Sound: boolean;
  HealthChecks?: HealthCheck[];
}

export interface Decision {
  id: number;
  /** When it was told. */
  time: Nanos;
  /** When it was made, where something was waited for in between. */
  decidedTime?: Nanos;
  kind: "allocation" | "reservation" | "eviction";
  ruled: string;
  applicationId: string;
  allocationKey: string;
  /** Namespace and name of its pod. */
  pod?: string;
  queueName: string;
  nodeId: string;
  levels?: { queue: string; order: string; chosen: string; runnerUp?: string; runnerUpPod?: string; rule: string }[];
  nodes?: { tried: number; passedOver?: { reason: string; count: number; example?: string }[] };
  preemptedFor?: string;
}

export interface Session {
  rmId: string;
  /** A number that is too large for a number here. */
  sessionId: string;
  state: string;
  version?: string;
  policyGroup?: string;
  dialect?: string;
  openStreams?: string[];
  registeredAt: Nanos;
  pausedAt?: Nanos;
  outboxItems: number;
  instanceId?: string;
  buildInfo?: Record<string, string>;
  lost?: string;
}

export interface Sessions {
  schedulerId: string;
  sessions: Session[];
}
