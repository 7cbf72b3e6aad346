// Decisions in groups: those of one moment, application, kind and rule are one row.
import type { Decision, Nanos } from "../rest/types";

/** Decisions that belong together, newest first. */
export interface DecisionGroup {
  /** The newest one. */
  first: Decision;
  all: Decision[];
}

/** Longest time between two neighbours of a group, in nanoseconds. */
const APART: Nanos = 1e9;

/** The preemptor of an eviction, and its reason: `preempted for ask `k` of application `a`: queue …`. */
export function preemptorOf({ preemptedFor = "" }: Decision): { application: string; why: string } | undefined {
  const found = /application `([^`]*)`(?:: |, )?(.*)$/.exec(preemptedFor);
  return found ? { application: found[1] ?? "", why: found[2] ?? "" } : undefined;
}

/** Key of a group. That of evictions has the application of the preemptor. */
const same = (decision: Decision) => JSON.stringify([decision.applicationId, decision.kind, decision.ruled, preemptorOf(decision)]);

/** Groups of decisions, newest first. Decisions of other applications in between do not end a group. */
export function decidedTogether(decisions: Decision[]): DecisionGroup[] {
  const groups: DecisionGroup[] = [];
  const open = new Map<string, DecisionGroup>();
  for (const decision of decisions) {
    const what = same(decision);
    const group = open.get(what);
    const last = group?.all.at(-1);
    if (group && last && last.time - decision.time <= APART) {
      group.all.push(decision);
      continue;
    }
    const begun = { first: decision, all: [decision] };
    open.set(what, begun);
    groups.push(begun);
  }
  return groups;
}

/** A request that skipped a node, with others of the same application, moment and reason. */
export interface PassedGroup {
  first: Decision;
  reason: string;
  all: Decision[];
}

/** Groups of the decisions for which a node is the example of those passed over, newest first. */
export function passedTogether(decisions: Decision[], node: string): PassedGroup[] {
  const reasons = new Map<string, Decision[]>();
  for (const decision of decisions) {
    for (const { reason, example } of decision.nodes?.passedOver ?? []) {
      if (example === node) reasons.set(reason, [...(reasons.get(reason) ?? []), decision]);
    }
  }
  const groups = [...reasons].flatMap(([reason, of]) => decidedTogether(of).map((group) => ({ reason, ...group })));
  return groups.sort((a, b) => b.first.id - a.first.id);
}

/** The nodes of some decisions: `n1`, or `n1 and 3 more`. */
export function nodesOf(decisions: Decision[]): { first: string; more: number } {
  const nodes = new Set(decisions.map((decision) => decision.nodeId));
  return { first: decisions[0]?.nodeId ?? "", more: nodes.size - 1 };
}
