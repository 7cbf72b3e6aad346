import { expect, test } from "vitest";
import { amount, amounts, byWeight, narrowed, ranked, share, short } from "../src/format/amounts";
import { eventsTogether, namesOfEvent, saidTogether, whatHappened } from "../src/format/events";
import { cutName, cutQueue, keyOf, nameOf, namesOf } from "../src/format/names";
import { span } from "../src/format/times";
import type { EventRecord } from "../src/rest/types";

test("amounts are said in units of people", () => {
  expect(amount("vcore", 1500)).toBe("1.5");
  expect(amount("memory", 1536)).toBe("1.5 KiB");
  expect(amount("memory", 4947802324992)).toBe("4.5 TiB");
  expect(amount("hugepages-2Mi", 2 ** 21)).toBe("2 MiB");
  expect(amount("nvidia.com/gpu", 8)).toBe("8");
  expect(amount("memory", -1024)).toBe("-1 KiB");
});

test("some amounts are one line, cores and memory first, without what is nothing", () => {
  expect(amounts({ pods: 3, memory: 1024 ** 3, vcore: 1000, gpu: 0 })).toBe("1 core, 1 GiB, 3 pods");
  expect(amounts(undefined)).toBe("");
  expect(["b", "memory", "a", "vcore"].sort(byWeight)).toEqual(["vcore", "memory", "a", "b"]);
});

test("large numbers lose their last digits and none of their size", () => {
  expect([999, 12_345, 123_456, 1_234_567, 2.5e9].map(short)).toEqual(["999", "12,345", "123k", "1.2M", "2.5G"]);
});

test("a share stays within its bar", () => {
  expect([share(1, 4), share(5, 4), share(-1, 4), share(1, 0), share(0, 0)]).toEqual([25, 100, 0, 100, 0]);
});

test("the least limit on the way down counts", () => {
  expect(narrowed({ vcore: 4, memory: 9 }, { vcore: 6, pods: 1 })).toEqual({ vcore: 4, memory: 9, pods: 1 });
});

test("times have the two units that count", () => {
  expect([0, 12, 59_999, 61_000, 3_600_000, 5_000_000, 100_000_000].map(span)).toEqual([
    "0 s",
    "12 ms",
    "59 s",
    "1 min 1 s",
    "1 h",
    "1 h 23 min",
    "1 d 3 h",
  ]);
});

test("events are words, and a number that is not known is told", () => {
  expect(whatHappened(2, 303)).toBe("allocation added");
  expect(whatHappened(1, 206)).toBe("running");
  expect(whatHappened(3, 500)).toBe("allocation ended");
  expect(whatHappened(2, 0)).toBe("added");
  expect(whatHappened(0, 0)).toBe("reported");
  expect(whatHappened(2, 999)).toBe("detail 999 added");
});

test("the pod of an event is what it is about, or what it refers to", () => {
  const pod = "lab/job-0";
  expect(namesOfEvent({ type: 1, objectID: "uid", referenceID: "app", pod })).toEqual({ object: pod, reference: "app" });
  expect(namesOfEvent({ type: 3, objectID: "n1", referenceID: "uid", pod })).toEqual({ object: "n1", reference: pod });
  expect(namesOfEvent({ type: 2, objectID: "app", referenceID: "k" })).toEqual({ object: "app", reference: "k" });
  expect(namesOfEvent({ type: 4, objectID: "root" })).toEqual({ object: "root", reference: "" });
});

test("events of one application and moment are together", () => {
  const of = (vcore: number) => ({ resources: { vcore: { value: vcore } } });
  const placed = (key: string, node: string, timestampNano: number, app: string) => [
    { record: { type: 3, eventChangeType: 2, eventChangeDetail: 303, objectID: node, referenceID: key, timestampNano, resource: of(1) } },
    { record: { type: 5, eventChangeType: 2, eventChangeDetail: 603, objectID: "ann", referenceID: "root.a", timestampNano, resource: of(1) } },
    { record: { type: 2, eventChangeType: 2, eventChangeDetail: 200, objectID: app, referenceID: key, timestampNano, resource: of(1) } },
  ];
  const running = { record: { type: 2, eventChangeType: 1, eventChangeDetail: 206, objectID: "etl", timestampNano: 7 } };
  const opened = { record: { type: 3, eventChangeType: 1, eventChangeDetail: 302, objectID: "n9", timestampNano: 7 } };
  // Two applications may have the same key.
  const past = [...placed("k1", "n1", 7, "etl"), ...placed("k1", "n2", 7, "web"), running, opened, ...placed("k2", "n2", 7, "etl"), ...placed("k3", "n1", 8, "etl")];
  const lost: { record?: EventRecord; remark?: string } = { remark: "lost" };
  const groups = eventsTogether([lost, ...[...past].reverse()]);
  expect(groups.map((group) => group.length)).toEqual([1, 3, 7, 1, 3]);
  expect(groups[3]).toEqual([opened]);
  const records = (groups[2] ?? []).flatMap(({ record }) => record ?? []);
  const { application, said, references, amounts: summed } = saidTogether(records);
  expect([application, said]).toEqual(["etl", [{ what: "allocation added", count: 2 }, { what: "running", count: 1 }]]);
  expect([references.map((one) => one.referenceID), summed.length]).toEqual([["k2", "k1"], 2]);
  // Usage, in amounts times seconds, is no amount of the moment.
  const usage = { type: 2, objectID: "etl", referenceID: "UNKNOWN", message: "2 resource-seconds", timestampNano: 9, resource: of(900) };
  expect(saidTogether([usage, running.record])).toEqual({ application: "etl", said: [{ what: "running", count: 1 }], references: [], amounts: [] });
  expect(saidTogether([usage, usage])).toEqual({ application: "etl", said: [{ what: "reported", count: 2 }], references: [], amounts: [] });
  // An allocation that ends is named once, with its amount.
  const end = (detail: number) => ({ type: 2, eventChangeType: 3, eventChangeDetail: detail, objectID: "etl", referenceID: "k1", timestampNano: 9, resource: of(1) });
  const ended = saidTogether([end(100), end(500)]);
  expect([ended.said.map(({ what }) => what), ended.references.length, ended.amounts]).toEqual([["request withdrawn", "allocation ended"], 1, [end(500)]]);
});

test("pods have names, and other requests keys", () => {
  const allocationTags = { "kubernetes.io/meta/namespace": "lab", "kubernetes.io/meta/podName": "job-0" };
  const pod = { allocationKey: "uid-1", allocationTags };
  const nameless = { allocationKey: "uid-2", allocationTags: { "kubernetes.io/meta/namespace": "lab" } };
  expect([pod, nameless, { allocationKey: "task" }].map(nameOf)).toEqual(["lab/job-0", "uid-2", "task"]);
  const names = namesOf([pod], undefined, [nameless]);
  expect([...names]).toEqual([["uid-1", "lab/job-0"]]);
  expect(["lab/job-0", "uid-1", "task"].map((name) => keyOf(names, name))).toEqual(["uid-1", "uid-1", "task"]);
});

test("long names are cut in the middle and keep both ends", () => {
  expect(cutName("etl-7", 28)).toBe("etl-7");
  const cut = cutName("spark-3f2c1b7e-9a4d-4c1e-b7aa-0b6f9d2e7c11-retry-3", 28);
  expect([cut, cut.length]).toEqual(["spark-3f2c1b7e-…7c11-retry-3", 28]);
});

test("long paths of queues keep their last two segments", () => {
  expect(cutQueue("root.prod.etl", 28)).toBe("root.prod.etl");
  expect(cutQueue("root.department-of-theoretical-physics.quantum.lattice", 28)).toBe("…quantum.lattice");
  expect(cutQueue("root.department.quantum-chromodynamics.lattice-simulations-2027", 28)).toHaveLength(28);
});

test("types that requests wait for go first, and unused ones go last and on demand", () => {
  const capacity = { "hugepages-2Mi": 10, "ephemeral-storage": 100, "nvidia.com/gpu": 24, memory: 100, vcore: 100 };
  const busy = ranked({ capacity, used: { vcore: 50, memory: 50, "nvidia.com/gpu": 5 }, pending: { vcore: 4, "nvidia.com/gpu": 4 } });
  expect(busy).toEqual({ names: ["vcore", "nvidia.com/gpu", "memory", "ephemeral-storage", "hugepages-2Mi"], shown: 3 });
  // A type of which there is nothing is shown if a request waits for it, and the scarcest of equal types first.
  const waits = ranked({ capacity: { vcore: 8, licence: 4, disk: 9 }, used: {}, pending: { fpga: 1, disk: 2, licence: 4 } });
  expect(waits).toEqual({ names: ["fpga", "licence", "disk", "vcore"], shown: 4 });
  // The scarcest is first: GPUs before cores where more of them are in use.
  const scarce = ranked({ capacity, used: { vcore: 20, memory: 50, "nvidia.com/gpu": 24 }, pending: {} });
  expect(scarce).toEqual({ names: ["nvidia.com/gpu", "memory", "vcore", "ephemeral-storage", "hugepages-2Mi"], shown: 3 });
  expect(ranked({ capacity: { a: 1, b: 1, c: 1 }, used: undefined, pending: undefined }).shown).toBe(2);
});
