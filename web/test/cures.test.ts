import { expect, test } from "vitest";
import { commandOf, editOf, flow, linesOf, ownerOf, quantity } from "../src/format/cures";

const GI = 2 ** 30;

test("quantities are those of the queue configuration", () => {
  expect([quantity("vcore", 2000), quantity("vcore", 2500), quantity("memory", 520 * GI), quantity("memory", 1000), quantity("gpu", 4)]).toEqual(["2", "2500m", "520Gi", "1000", "4"]);
  expect(flow({ memory: 520 * GI, vcore: 130_000 })).toBe("{vcore: 130, memory: 520Gi}");
});

test("a larger maximum of a queue has the new amounts and their place", () => {
  const change = { kind: "quota", object: "root.a", resource: { vcore: 2000 } };
  const found = linesOf(change, { most: { vcore: 4000, memory: 8 * GI }, applications: undefined });
  expect(found).toEqual({ queue: "root.a", lines: "resources:\n  max: {vcore: 6, memory: 8Gi}" });
  expect(linesOf(change, { most: undefined, applications: undefined })).toBeUndefined();
});

test("a larger limit of a user is one of its queue", () => {
  expect(ownerOf("user ann in root.a")).toEqual({ kind: "user", name: "ann", queue: "root.a" });
  const found = linesOf({ kind: "userLimit", object: "user ann in root.a", resource: { vcore: 1000 } }, { most: { vcore: 4000 }, applications: 2 });
  expect(found).toEqual({ queue: "root.a", lines: 'limits:\n  - limit: of ann\n    users: ["ann"]\n    maxresources: {vcore: 5}' });
  const more = linesOf({ kind: "runningApplications", object: "root.a", count: 2 }, { most: undefined, applications: 3 });
  expect(more).toEqual({ queue: "root.a", lines: "maxapplications: 5" });
});

test("other changes have a command", () => {
  expect(commandOf({ kind: "nodeRoom", object: "n1" }, "etl")).toBe("monoceros describe node n1");
  expect(commandOf({ kind: "time" }, "etl")).toBe("monoceros explain etl");
});

test("a change has the same place in a whole configuration", () => {
  const queue = { kind: "quota", object: "root.a", resource: { vcore: 2000 } };
  expect(editOf(queue, { most: { vcore: 4000, memory: 8 * GI }, applications: undefined })).toEqual({ queue: "root.a", keys: ["resources", "max"], lines: ["memory: 8Gi", 'vcore: "6"'] });
  const user = { kind: "runningApplications", object: "user ann in root.a" };
  expect(editOf(user, { most: undefined, applications: 2 })).toEqual({ queue: "root.a", keys: ["maxapplications"], lines: ["3"], owner: { kind: "user", name: "ann" } });
  expect(editOf({ kind: "time" }, { most: undefined, applications: undefined })).toBeUndefined();
});
