// REST documents as described in docs/rest.md: the fields that the page reads. Empty, zero or false values are
// left out there, so most fields are optional here.

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
  /** Most decisions that are kept; missing if the service keeps none. */
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
  /** The change by which it would be admitted. */
  rejectedCure?: string;
  /** The resource manager that removed it, and the work that it had then, in words. */
  removedMessage?: string;
  applicationTags?: Record<string, string>;
  stateLog?: { time?: Nanos; applicationState?: string }[];
  /** Causes for which the first of its requests waited, each until the next entry. Without a cause, nothing was pending. */
  waitLog?: { time: Nanos; cause?: string }[];
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
  /** Only in brief rows. */
  allocationCount?: number;
  /** Only in brief rows: number of allocations that its requests still want. */
  pendingCount?: number;
  /** Only in brief rows: the obstacle of the request tried last. */
  waitsFor?: string;
  /** Only in brief rows: the cause for which the first of its requests waits; missing if it was not tried yet. */
  cause?: string;
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
  /** Number of requests that it refused. */
  refusals?: number;
  isReserved: boolean;
  reservations?: string[];
  /** Namespace and name of pods, by key. */
  reservingPods?: Record<string, string>;
  /** Only in brief rows. */
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
  changes?: Change[];
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

/** One change of a cure. */
export interface Change {
  kind: string;
  /** A queue, a user or group in a queue, a node or a partition. */
  object?: string;
  /** The closed node that would be opened. */
  node?: string;
  /** Amount of the change; of a node, the least capacity. */
  resource?: Resources;
  count?: number;
}

/** Amounts of a queue, user or node over time. */
export interface SubjectHistory {
  sampleSeconds: number;
  pointSeconds: number;
  times: Nanos[];
  amounts: {
    amount: string;
    resource: string;
    /** Mean of the samples of each point; `null` where nothing is known. */
    mean: (number | null)[];
    max: (number | null)[];
  }[];
}

export interface EventRecord {
  type?: number;
  objectID?: string;
  message?: string;
  timestampNano?: Nanos;
  eventChangeType?: number;
  eventChangeDetail?: number;
  referenceID?: string;
  /** Namespace and name of the pod of the event. */
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
  /** The finding has an outside cause: rejected messages, nodes that shrank. */
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
  /** Time of the notification. */
  time: Nanos;
  /** Time of the decision, if it was made earlier than the notification. */
  decidedTime?: Nanos;
  kind: "allocation" | "reservation" | "eviction";
  ruled: string;
  applicationId: string;
  allocationKey: string;
  /** Namespace and name of the pod. */
  pod?: string;
  queueName: string;
  nodeId: string;
  levels?: { queue: string; order: string; chosen: string; runnerUp?: string; runnerUpPod?: string; rule: string }[];
  nodes?: { tried: number; passedOver?: { reason: string; count: number; example?: string }[] };
  preemptedFor?: string;
}

export interface Session {
  rmId: string;
  /** A number larger than a JavaScript number can hold. */
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
  /** The member that serves it, in a cluster. */
  memberId?: string;
}

export interface Sessions {
  schedulerId: string;
  sessions: Session[];
}

/** The cluster of the member that answers; `{}` if the service is no member of one. */
export interface Membership {
  name?: string;
  arbiter?: string;
  /** The member that answers. */
  member?: string;
  state?: string;
  problem?: string;
  leaseMs?: number;
  /** Age of members and claims; missing before the first read. */
  readAgoMs?: number;
  /** Configurations of policy groups that the member that answers cannot apply. */
  notInForce?: GroupConfiguration[];
  members?: Member[];
  claims?: Claim[];
}

export interface Member {
  id: string;
  incarnation: string;
  version: string;
  grpc: string;
  rest: string;
  internal?: string;
  state: string;
  rms: number;
  load: number;
  beatAgoMs?: number;
  /** Number of policy groups whose configuration it cannot apply; missing for none. */
  notInForce?: number;
}

export interface GroupConfiguration {
  /** Missing for all groups without a configuration of their own. */
  policyGroup?: string;
  /** Version in force; missing for none. */
  inForce?: number;
  inArbiter?: number;
  reason: string;
}

export interface Claim {
  rmId: string;
  /** A number larger than a JavaScript number can hold. */
  sessionId: string;
  member?: string;
  wantedBy?: string;
  sinceMs: number;
}

/** Seconds after the snapshot of an answer to what would happen. */
export type Seconds = number;

/** Answer to what would happen: `a` is without the changes, `b` with them. Its fields are never left out, except those of names. */
export interface WhatIfAnswer {
  /** The first line says whether it is safe, the others with which numbers. */
  lines: string[];
  horizon: Seconds;
  isSafe: boolean;
  evicted: WhatIfEvicted[];
  starts: WhatIfStart[];
  never: WhatIfNever[];
  /** Whether these three lists were cut. */
  isCut: boolean;
  queues: WhatIfShares[];
  users: WhatIfShares[];
}

/** Names of a request in an answer. */
export interface WhatIfNames {
  /** Missing for the partition `default`. */
  partition?: string;
  application: string;
  key: string;
  queue: string;
  user: string;
}

/** An allocation that is evicted with the changes only. */
export interface WhatIfEvicted extends WhatIfNames {
  time: Seconds;
  node: string;
  grounds: string;
  forQueue?: string;
  why: string;
  /** Run time until then, in seconds. */
  ran: number;
  isAskedAnew: boolean;
  again: Seconds | null;
}

/** A request that starts at another time; `null` where it does not start. */
export interface WhatIfStart extends WhatIfNames {
  count: number;
  a: Seconds | null;
  b: Seconds | null;
}

/** A request that does not start until the horizon. */
export interface WhatIfNever extends WhatIfNames {
  count: number;
  /** When it starts without the changes. */
  a: Seconds | null;
  why: string;
  gang?: string;
  cure?: string;
}

/** Figures of a queue or user without and with the changes. */
export interface WhatIfShares {
  name: string;
  a: WhatIfShare;
  b: WhatIfShare;
}

export interface WhatIfShare {
  /** Mean of the largest share of any resource. */
  share: number;
  started: number;
  /** Waits of what started, in seconds. */
  waitMedian: number;
  waitP95: number;
  evicted: number;
}
