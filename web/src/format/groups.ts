// Applications in groups: by queue, user, state or cause.
import type { Application, Resources } from "../rest/types";

/** Names of the groupings in the address, with the field of an application that each compares. */
export const GROUPINGS = {
  queue: (row: Application) => row.queueName,
  user: (row: Application) => row.user ?? "",
  state: (row: Application) => row.applicationState ?? "",
  cause: (row: Application) => row.waitsFor ?? "",
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

/** Groups with their totals, by name. */
export function grouped(rows: Application[], by: Grouping): Group[] {
  const groups = new Map<string, Group>();
  for (const row of rows) {
    const name = GROUPINGS[by](row);
    const group = groups.get(name) ?? { name, applications: 0, allocations: 0, pending: 0, used: {} };
    groups.set(name, group);
    group.applications++;
    group.allocations += row.allocationCount ?? 0;
    group.pending += row.pendingCount ?? 0;
    for (const [type, used] of Object.entries(row.usedResource ?? {})) group.used[type] = (group.used[type] ?? 0) + used;
  }
  return [...groups.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
}
