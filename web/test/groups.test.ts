import { expect, test } from "vitest";
import { besideOf } from "../src/format/beside";
import { grouped } from "../src/format/groups";
import { sorted } from "../src/parts/table";
import type { Application } from "../src/rest/types";

const application = (user: string, allocationCount: number, pendingCount: number) =>
  ({ applicationID: `${user}-${allocationCount}`, queueName: "root.a", user, allocationCount, pendingCount, usedResource: { vcore: 1000 * allocationCount }, resourceHistory: {} }) as Application;

test("groups have the sums of their applications", () => {
  const groups = grouped([application("b", 1, 0), application("a", 2, 3), application("a", 1, 0)], "user");
  expect(groups).toEqual([
    { name: "a", applications: 2, allocations: 3, pending: 3, used: { vcore: 3000 } },
    { name: "b", applications: 1, allocations: 1, pending: 0, used: { vcore: 1000 } },
  ]);
});

test("links of single objects open beside the list", () => {
  expect(besideOf("http://x/ui/node?id=n1&partition=p")).toBe("node:n1");
  expect(besideOf("/ui/queue?path=root.a%3Ab")).toBe("queue:root.a:b");
  expect([besideOf("/ui/nodes?id=n1"), besideOf("/ui/application"), besideOf("/")]).toEqual([undefined, undefined, undefined]);
});

test("names with numbers are sorted as people count", () => {
  const columns = [{ id: "name", head: "", by: (row: string) => row, cell: () => null }];
  const rows = ["task-10", "task-2", "a1b2", "a1b10"];
  expect(sorted(rows, columns, "name", String)).toEqual(["a1b2", "a1b10", "task-2", "task-10"]);
  expect(sorted(rows, columns, "-name", String)[0]).toBe("task-10");
});
