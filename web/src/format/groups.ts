// Applications in groups: by queue, user, state or cause.
import type { Application, Resources } from "../rest/types";
import { short } from "./amounts";

/** Name of the cause for which an application waits; empty if nothing is pending. */
export const causeOf = (row: Application) => (row.pendingCount ? (row.cause ?? "next") : "");

/** Names of the groupings in the address, with the field of an application that each compares. */
export const GROUPINGS = {
  queue: (row: Application) => row.queueName,
  user: (row: Application) => row.user ?? "",
  state: (row: Application) => row.applicationState ?? "",
  cause: causeOf,
};

export type Grouping = keyof typeof GROUPINGS;

export interface Group {
  name: string;
  applications: number;
  allocations: number;
  /** Number of allocations that the requests still want. */
  pending: number;
  used: Resources;
}

/** Groups with their totals, by name. Only applications that wait have a cause. */
export function grouped(rows: Application[], by: Grouping): Group[] {
  const groups = new Map<string, Group>();
  for (const row of rows) {
    const name = GROUPINGS[by](row);
    if (by === "cause" && !name) continue;
    const group = groups.get(name) ?? { name, applications: 0, allocations: 0, pending: 0, used: {} };
    groups.set(name, group);
    group.applications++;
    group.allocations += row.allocationCount ?? 0;
    group.pending += row.pendingCount ?? 0;
    for (const [type, used] of Object.entries(row.usedResource ?? {})) group.used[type] = (group.used[type] ?? 0) + used;
  }
  return [...groups.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** The part of a list that was read, if that is not the whole list. */
export interface Part {
  /** Number of rows that were read. */
  read: number;
  isFirst: boolean;
}

/** The number of groups, and of what: `8 groups of the first 1,000 applications`. */
export function summary(groups: Group[], part: Part | undefined): string {
  const many = (count: number, name: string) => `${short(count)} ${count === 1 ? name : `${name}s`}`;
  const count = groups.reduce((sum, group) => sum + group.applications, 0);
  const of = many(count, "application");
  const head = `${many(groups.length, "group")} of `;
  if (!part) return head + of;
  if (!part.isFirst) return `${head}${of}, of a part of the list`;
  return count === part.read ? `${head}the first ${of}` : `${head}${of}, of the first ${short(part.read)}`;
}

/** Number of applications in each queue and those below it. */
export function countsBelow(rows: Application[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const { queueName } of rows) {
    const names = queueName.split(".");
    for (let depth = 1; depth <= names.length; depth++) {
      const path = names.slice(0, depth).join(".");
      counts.set(path, (counts.get(path) ?? 0) + 1);
    }
  }
  return counts;
}
