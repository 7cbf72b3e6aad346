import { expect, test } from "vitest";
import { nextPlace, path } from "../src/rest/client";
import { thread } from "../src/rest/follow";
import { named } from "../src/rest/partitions";
import type { Partition, Queue } from "../src/rest/types";
import { openRows } from "../src/views/tree";

test("the next page is where the header says", () => {
  expect(nextPlace('</ws/v1/partition/default/nodes?limit=2&after=a%2Fb%20c>; rel="next"')).toBe("a/b c");
  expect(nextPlace('</ws/v1/partition/default/decisions?after=17&limit=2>; rel="next"')).toBe("17");
  expect(nextPlace(null)).toBeNull();
  expect(nextPlace('</x?after=a>; rel="prev"')).toBeNull();
});

test("what is not asked for is not in the path", () => {
  expect(path("/x", { a: "1", b: undefined, c: "", d: false, e: "ü&" })).toBe("/x?a=1&e=%C3%BC%26");
  expect(path("/x", {})).toBe("/x");
});

test("the thread of events is found behind the last lines of before", () => {
  expect(thread([], ["a"])).toBe(0);
  expect(thread(["b", "c"], ["a", "b", "c", "d"])).toBe(3);
  expect(thread(["b", "c"], ["b", "c"])).toBe(2);
  expect(thread(["b", "c"], ["c", "d"])).toBe(-1);
  expect(thread(["b", "c"], ["b", "x", "c"])).toBe(-1);
});

test("a plain name means the first partition of that name", () => {
  const one = (clusterId: string, name: string) => ({ clusterId, name }) as Partition;
  const paths = named([one("a", "default"), one("b", "default"), one("a", "gpu")]).map((known) => known.path);
  expect(paths).toEqual(["default", "[b]default", "gpu"]);
});

test("a queue may use what its own maximum and those above leave, and what is folded is left out", () => {
  const queue = (queuename: string, maxResource: Record<string, number>, children: Queue[] = []) => ({ queuename, maxResource, children }) as Queue;
  const root = queue("root", { vcore: 10 }, [queue("root.a", { vcore: 20, memory: 5 }, [queue("root.a.b", {})]), queue("root.c", { vcore: 3 })]);
  const rows = openRows(root, (it) => it.queuename === "root.c");
  expect(rows.map(({ queue, depth, limits }) => [queue.queuename, depth, limits.vcore, limits.memory])).toEqual([
    ["root", 0, 10, undefined],
    ["root.a", 1, 10, 5],
    ["root.a.b", 2, 10, 5],
    ["root.c", 1, 3, undefined],
  ]);
});
