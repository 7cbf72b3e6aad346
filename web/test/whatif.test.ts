import { expect, test } from "vitest";
import { partitionsOf } from "../src/format/config";
import { after, difference, percent, question, ruleOf } from "../src/format/whatif";

test("a question has the configuration if it was changed", () => {
  const inForce = "partitions:\n- name: default\n";
  expect(JSON.parse(question("lab", "partitions: []", inForce, " 2h "))).toEqual({ rm: "lab", horizon: "2h", queues: "partitions: []" });
  expect(JSON.parse(question("lab", inForce.trim(), inForce, ""))).toEqual({ rm: "lab", horizon: "24h" });
  expect(JSON.parse(question("lab", "", inForce, "24h"))).toHaveProperty("queues", "");
});

test("the configuration to edit has neither checksum nor settings", () => {
  const partitions = "partitions:\n- name: default\n  queues:\n  - name: root";
  expect(partitionsOf(`${partitions}\nchecksum: 5A\nextra:\n  a: b\n`)).toBe(partitions);
  expect(partitionsOf(`checksum: 5A\n${partitions}\n`)).toBe(partitions);
  expect(partitionsOf("checksum: 5A")).toBe(undefined);
});

test("starts and their differences are in words", () => {
  expect([0, 90, null].map(after)).toEqual(["at once", "after 1 min 30 s", "not in time"]);
  expect(difference({ a: 7200, b: 0 })).toBe("2 h earlier");
  expect(difference({ a: 0, b: 60 })).toBe("1 min later");
  expect(difference({ a: 0, b: null })).toBe("not any more");
  expect(difference({ a: null, b: 0 })).toBe("only with the change");
});

test("an eviction has the rule and the queue for which it is", () => {
  expect(ruleOf({ grounds: "guarantee", forQueue: "root.ls" })).toBe("for the guarantee of");
  expect(ruleOf({ grounds: "quota" })).toBe("above a maximum");
  expect(ruleOf({ grounds: "nodeRemoved" })).toBe("its node is removed");
  expect(ruleOf({ grounds: "new" })).toBe("for other reasons");
});

test("small shares have a decimal", () => {
  expect([0, 0.004, 0.25, 1].map(percent)).toEqual(["0 %", "0.4 %", "25 %", "100 %"]);
});
