import { expect, test } from "vitest";
import { decidedTogether, nodesOf, passedTogether, preemptorOf } from "../src/format/decided";
import { kindsOf, timeline } from "../src/format/timeline";
import type { Application, Decision, Explanation } from "../src/rest/types";

const S = 1e9;
const decision = (id: number, time: number, more: Partial<Decision> = {}): Decision => ({
  id, time, kind: "allocation", ruled: "first node", applicationId: "app", allocationKey: `k${id}`, queueName: "root.a", nodeId: "n1", ...more,
});
const application = (more: Partial<Application>): Application => ({ applicationID: "app", queueName: "root.a", submissionTime: 100 * S, resourceHistory: {}, ...more });
const waiting = [{ allocationKey: "k", priority: "0" }];
const because = (cause: string) => [{ cause } as Explanation];

test("decisions of one moment, application, kind and rule are one group", () => {
  const rows = [
    decision(9, 20 * S),
    decision(8, 20 * S, { applicationId: "other" }),
    decision(7, 19.5 * S, { nodeId: "n2" }),
    decision(6, 19 * S, { kind: "eviction", preemptedFor: "preempted for ask `a` of application `x`: y" }),
    decision(5, 18.9 * S, { kind: "eviction", preemptedFor: "preempted for ask `b` of application `x`: y" }),
    decision(4, 17 * S),
  ];
  const groups = decidedTogether(rows);
  expect(groups.map((group) => group.all.map((one) => one.id))).toEqual([[9, 7], [8], [6, 5], [4]]);
  expect(nodesOf(groups[0]?.all ?? [])).toEqual({ first: "n1", more: 1 });
});

test("the preemptor is read from the sentence", () => {
  const of = (preemptedFor: string) => preemptorOf(decision(1, 0, { preemptedFor }));
  expect(of("preempted for pod `lab/p` of application `app`, which runs on node `n1` only")).toEqual({ application: "app", why: "which runs on node `n1` only" });
  expect(of("preempted for the gang of application `app`: queue `root.a` takes back")).toEqual({ application: "app", why: "queue `root.a` takes back" });
  expect(of("anything else")).toBeUndefined();
});

test("requests that skipped a node are grouped by application and reason", () => {
  const skipped = (reason: string, example = "n9") => ({ nodes: { tried: 1, passedOver: [{ reason, count: 1, example }] } });
  const rows = [
    decision(9, 20 * S, skipped("reserved")),
    decision(8, 20 * S, skipped("full")),
    decision(7, 20 * S, skipped("reserved")),
    decision(6, 20 * S, skipped("reserved", "n3")),
  ];
  const found = passedTogether(rows, "n9").map(({ reason, all }) => [reason, all.map((one) => one.id)]);
  expect(found).toEqual([["reserved", [9, 7]], ["full", [8]]]);
});

const spans = (it: Application, lane: string, of: { decisions?: Decision[]; because?: Explanation[] } = {}) =>
  timeline(it, of.decisions ?? [], of.because ?? [], 200 * S)
    .lanes.find((one) => one.name === lane)
    ?.spans.map(({ kind, from, to }) => [kind, from / S, to / S]);

test("states follow each other until the end", () => {
  const stateLog = [{ time: 101 * S, applicationState: "Accepted" }, { time: 120 * S, applicationState: "Running" }];
  expect(spans(application({ stateLog }), "State")).toEqual([["New", 100, 101], ["Accepted", 101, 120], ["Running", 120, 200]]);
  const over = [...stateLog, { time: 150 * S, applicationState: "Completed" }];
  expect(spans(application({ stateLog: over, finishedTime: 150 * S }), "State")?.at(-1)).toEqual(["Running", 120, 150]);
});

test("waits have their causes, and none while nothing is pending", () => {
  const waitLog = [{ time: 105 * S, cause: "queueQuota" }, { time: 110 * S, cause: "noNode" }, { time: 120 * S }, { time: 130 * S, cause: "userQuota" }];
  const it = application({ waitLog, requests: waiting });
  const expected = [["next", 100, 105], ["queueQuota", 105, 110], ["noNode", 110, 120], ["userQuota", 130, 200]];
  expect(spans(it, "Waiting", { because: because("queueQuota") })).toEqual(expected);
  expect(spans(application({}), "Waiting")).toBeUndefined();
});

test("each kind of span is named once", () => {
  const it = application({ stateLog: [{ time: 100 * S, applicationState: "Accepted" }], waitLog: [{ time: 105 * S, cause: "noNode" }], requests: waiting });
  expect(kindsOf(timeline(it, [], [], 200 * S).lanes)).toEqual([["Accepted", "Accepted"], ["next", "not tried yet"], ["noNode", "no node has room"]]);
});

test("before the first try, the present cause is that of the wait", () => {
  const it = application({ requests: waiting, stateLog: [{ time: 100 * S, applicationState: "Accepted" }] });
  expect(spans(it, "Waiting", { because: because("notRunnable") })).toEqual([["notRunnable", 100, 200]]);
  expect(spans(it, "Waiting")).toEqual([["next", 100, 200]]);
});

test("reservations last until the request is placed", () => {
  const decisions = [
    decision(4, 150 * S, { kind: "reservation", allocationKey: "b" }),
    decision(3, 140 * S, { allocationKey: "a" }),
    decision(2, 120 * S, { kind: "reservation", allocationKey: "a" }),
    decision(1, 110 * S, { kind: "reservation", allocationKey: "gone" }),
  ];
  expect(spans(application({ reservations: ["b"] }), "Reserved", { decisions })).toEqual([["reserved", 150, 200], ["reserved", 120, 140]]);
});

test("marks count the decisions of a moment, and name the preemptor", () => {
  const decisions = [
    decision(3, 150 * S, { kind: "eviction", preemptedFor: "preempted for ask `b` of application `x`: queue `q` takes back" }),
    decision(2, 150 * S, { kind: "eviction", preemptedFor: "preempted for ask `b` of application `x`: queue `q` takes back", nodeId: "n2" }),
    decision(1, 120 * S),
    decision(1, 120 * S, { applicationId: "other" }),
  ];
  const { marks } = timeline(application({}), decisions, [], 200 * S);
  expect(marks.map((mark) => [mark.at / S, mark.count, mark.text])).toEqual([
    [150, 2, "2 evicted from n1 and 1 more for `x`: queue `q` takes back"],
    [120, 1, "1 placed on n1"],
  ]);
});
