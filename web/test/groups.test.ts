import { expect, test } from "vitest";
import { besideOf } from "../src/format/beside";
import { causeOf, countsBelow, grouped, summary } from "../src/format/groups";
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

test("only applications that wait have a cause", () => {
  const waiting = { ...application("a", 1, 3), waitsFor: "Not enough queue quota", cause: "userQuota" };
  const rows = [waiting, application("b", 1, 2), { ...application("c", 4, 0), cause: "noNode" }];
  expect(rows.map(causeOf)).toEqual(["userQuota", "next", ""]);
  expect(grouped(rows, "cause").map(({ name, pending }) => [name, pending])).toEqual([["next", 2], ["userQuota", 3]]);
});

test("the summary of groups says if the list is a part", () => {
  const groups = grouped([application("a", 2, 3), application("b", 1, 0)], "user");
  expect(summary(groups, undefined)).toBe("2 groups of 2 applications");
  expect(summary(groups.slice(0, 1), undefined)).toBe("1 group of 1 application");
  expect(summary(groups, { read: 2, isFirst: true })).toBe("2 groups of the first 2 applications");
  expect(summary(groups, { read: 1000, isFirst: true })).toBe("2 groups of 2 applications, of the first 1,000");
  expect(summary(groups, { read: 1000, isFirst: false })).toBe("2 groups of 2 applications, of a part of the list");
});

test("applications are counted in their queue and those above", () => {
  const rows = ["root.a", "root.b.c", "root.b"].map((queueName) => ({ ...application("a", 0, 1), queueName }));
  expect([...countsBelow(rows)].sort()).toEqual([["root", 3], ["root.a", 1], ["root.b", 2], ["root.b.c", 1]]);
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
