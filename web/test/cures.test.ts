import { expect, test } from "vitest";
import { aimed, commandOf, editOf, flow, linesOf, ownerOf, quantity, takes, word } from "../src/format/cures";

const GI = 2 ** 30;

test("quantities are those of the queue configuration", () => {
  expect([quantity("vcore", 2000), quantity("vcore", 2500), quantity("memory", 520 * GI), quantity("memory", 1000), quantity("gpu", 4)]).toEqual(["2", "2500m", "520Gi", "1000", "4"]);
  expect(flow({ memory: 520 * GI, vcore: 130_000 })).toBe("{vcore: 130, memory: 520Gi}");
});

test("a larger maximum of a queue has the new amounts and their place", () => {
  const change = { kind: "quota", object: "root.a", resource: { vcore: 2000 } };
  const found = linesOf(change, { most: { vcore: 4000, memory: 8 * GI }, applications: undefined });
  expect(found).toEqual({ queue: "root.a", place: "below `resources`, in place of its `max`", lines: "max: {vcore: 6, memory: 8Gi}" });
  expect(linesOf(change, { most: undefined, applications: undefined })).toBeUndefined();
});

test("a larger limit of a user is one of its queue", () => {
  expect(ownerOf("user ann in root.a")).toEqual({ kind: "user", name: "ann", queue: "root.a" });
  const found = linesOf({ kind: "userLimit", object: "user ann in root.a", resource: { vcore: 1000 } }, { most: { vcore: 4000 }, applications: 2 });
  const place = "first below `limits`; if a limit of user `ann` alone is there, only the last line, in it";
  expect(found).toEqual({ queue: "root.a", place, lines: '- limit: of ann\n  users: ["ann"]\n  maxresources: {vcore: 5}' });
  const more = linesOf({ kind: "runningApplications", object: "root.a", count: 2 }, { most: undefined, applications: 3 });
  expect(more).toEqual({ queue: "root.a", place: "in place of its `maxapplications`", lines: "maxapplications: 5" });
});

test("other changes have a command", () => {
  expect(commandOf({ kind: "nodeRoom", object: "n1" }, "etl")).toEqual({ text: "monoceros describe node n1", isCure: false });
  expect(commandOf({ kind: "time" }, "etl")).toEqual({ text: "monoceros explain etl", isCure: false });
});

test("a closed node is opened by a command", () => {
  expect(commandOf({ kind: "openNode", node: "n1" }, "etl")).toEqual({ text: "monoceros uncordon n1", isCure: true });
});

test("commands name the resource manager where there are several, and a partition that is not the default", () => {
  const [a, b, gpu] = [{ clusterId: "a", name: "default" }, { clusterId: "b", name: "default" }, { clusterId: "a", name: "gpu" }];
  const command = "monoceros cordon n1";
  expect(aimed(command, a, [a])).toBe(command);
  expect(aimed(command, a, [a, b])).toBe(`${command} --rm a`);
  expect(aimed(command, gpu, [a, gpu])).toBe(`${command} --partition gpu`);
  expect(aimed(command, gpu, [a, b, gpu])).toBe(`${command} --rm a --partition gpu`);
  expect(aimed(command, undefined, undefined)).toBe(command);
  // Configurations are of resource managers, and the check of a file connects to none.
  expect(takes(gpu, [a, b, gpu])).toBe(
    "monoceros config get --rm a > queues.yaml\n# change the lines, then\nmonoceros validate queues.yaml && monoceros config set queues.yaml --rm a",
  );
  expect([word("n-1.x"), word("a b"), word("it's")]).toEqual(["n-1.x", "'a b'", "'it'\\''s'"]);
});

test("a change has the same place in a whole configuration", () => {
  const queue = { kind: "quota", object: "root.a", resource: { vcore: 2000 } };
  expect(editOf(queue, { most: { vcore: 4000, memory: 8 * GI }, applications: undefined })).toEqual({ queue: "root.a", keys: ["resources", "max"], lines: ["memory: 8Gi", 'vcore: "6"'] });
  const user = { kind: "runningApplications", object: "user ann in root.a" };
  expect(editOf(user, { most: undefined, applications: 2 })).toEqual({ queue: "root.a", keys: ["maxapplications"], lines: ["3"], owner: { kind: "user", name: "ann" } });
  expect(editOf({ kind: "time" }, { most: undefined, applications: undefined })).toBeUndefined();
});
