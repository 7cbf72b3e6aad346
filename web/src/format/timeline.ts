// The life of an application as spans of time, from its document, its decisions and the present explanation.
import type { Application, Decision, Explanation, Nanos } from "../rest/types";
import { wordsOf } from "./causes";
import { type DecisionGroup, decidedTogether, nodesOf, preemptorOf } from "./decided";

export interface Span {
  from: Nanos;
  to: Nanos;
  /** The state, cause or kind of hold, which decides the colour. */
  kind: string;
  text: string;
}

export interface Lane {
  name: string;
  spans: Span[];
}

/** A moment: placements, reservations or evictions. */
export interface Mark {
  at: Nanos;
  kind: Decision["kind"];
  count: number;
  text: string;
  /** The newest decision. */
  id: number;
}

export interface Timeline {
  from: Nanos;
  to: Nanos;
  lanes: Lane[];
  marks: Mark[];
}

/** Cause of a request before it was first tried. */
const UNTRIED = "next";

/** The timeline up to `now`; `explained` are the entries of pending requests, if it lives. */
export function timeline(it: Application, decisions: Decision[], explained: Explanation[], now: Nanos): Timeline {
  const own = decisions.filter((one) => one.applicationId === it.applicationID);
  const states = (it.stateLog ?? []).flatMap(({ time, applicationState: state }) => (time && state ? [{ time, state }] : []));
  const from = Math.min(it.submissionTime || now, states[0]?.time ?? now);
  const to = Math.max(it.finishedTime ?? now, from + 1);
  const lanes = [
    { name: "State", spans: stateSpans(states, from, to) },
    { name: "Waiting", spans: waitSpans(it, states, explained[0]?.cause, from, to) },
    { name: "Reserved", spans: reservedSpans(it, own, to) },
    { name: "Held", spans: heldSpans(it, to) },
  ];
  const marks = decidedTogether(own).map(markOf).filter(({ at }) => at >= from && at <= to);
  return { from, to, lanes: lanes.filter((lane) => lane.spans.length), marks };
}

interface Entered {
  time: Nanos;
  state: string;
}

function stateSpans(states: Entered[], from: Nanos, to: Nanos): Span[] {
  const first = states[0]?.time ?? to;
  const before = first > from ? [{ from, to: first, kind: "New", text: "submitted" }] : [];
  const spans = states.map(({ time, state }, at) => ({ from: time, to: states[at + 1]?.time ?? to, kind: state, text: state }));
  return [...before, ...spans.filter((span) => span.to > span.from)];
}

/** The waits by cause. Before the first noted cause, requests were not tried; the last one is what is in the way now. */
function waitSpans(it: Application, states: Entered[], present: string | undefined, from: Nanos, to: Nanos): Span[] {
  const log = it.waitLog ?? [];
  const span = (kind: string, from: Nanos, to: Nanos) => ({ from, to, kind, text: wordsOf(kind) });
  const started = states.find(({ state }) => state === "Running")?.time ?? to;
  const end = Math.min(log[0]?.time ?? started, started);
  const isPending = it.requests !== undefined && it.requests.length > 0;
  const spans = end > from && (log.length > 0 || started < to || isPending) ? [span(UNTRIED, from, end)] : [];
  log.forEach(({ time, cause }, at) => {
    if (cause) spans.push(span(cause, time, log[at + 1]?.time ?? to));
  });
  if (!isPending || !present) return spans;
  const last = spans.at(-1);
  const isOpen = last && last.to === to;
  // A cause that is not noted when a request is tried, such as too many running applications, is known of the present alone.
  if (isOpen && last.kind === UNTRIED) Object.assign(last, span(present, last.from, to));
  return spans;
}

/** The time from each reservation to the placement of its request. */
function reservedSpans(it: Application, own: Decision[], to: Nanos): Span[] {
  const holds = new Set(it.reservations);
  return own
    .filter((one) => one.kind === "reservation")
    .flatMap((one) => {
      const placed = own.filter((other) => other.kind === "allocation" && other.allocationKey === one.allocationKey && other.time >= one.time).at(-1);
      const end = placed?.time ?? (holds.has(one.allocationKey) ? to : undefined);
      return end === undefined ? [] : [{ from: one.time, to: end, kind: "reserved", text: `${one.nodeId} reserved for ${one.pod ?? one.allocationKey}` }];
    });
}

/** The places that are held for members of a gang now. */
function heldSpans(it: Application, to: Nanos): Span[] {
  const held = (it.allocations ?? []).filter((one) => one.placeholder && one.allocationTime);
  if (!held.length) return [];
  const from = Math.min(...held.map((one) => one.allocationTime ?? to));
  return [{ from, to, kind: "held", text: `${held.length} places held` }];
}

/** Words for a group of decisions: `11 placed on n1 and 3 more`. */
export function markOf({ first, all }: DecisionGroup): Mark {
  const { first: node, more } = nodesOf(all);
  const where = more ? `${node} and ${more} more` : node;
  const verb = { allocation: "placed on", reservation: "reserved on", eviction: "evicted from" }[first.kind];
  const preemptor = preemptorOf(first);
  const why = preemptor ? ` for \`${preemptor.application}\`${preemptor.why && `: ${preemptor.why}`}` : "";
  return { at: first.time, kind: first.kind, count: all.length, text: `${all.length} ${verb} ${where}${why}`, id: first.id };
}

/** The kinds of spans of all lanes with their words, in the order in which they first occur. */
export function kindsOf(lanes: Lane[]): [string, string][] {
  const label = (lane: Lane, span: Span) => (lane.name === "Waiting" || lane.name === "State" ? span.text : span.kind);
  return [...new Map(lanes.flatMap((lane) => lane.spans.map((span): [string, string] => [span.kind, label(lane, span)])))];
}
