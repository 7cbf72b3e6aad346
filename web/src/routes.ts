// Where each view is. A view is a path below /ui/, and everything that it shows is in its query, so a link
// says all of it; the server answers each of these paths with the same page.
import { useLocation } from "preact-iso";
import { useCallback } from "preact/hooks";
import { path } from "./rest/client";
import { wantedPartition } from "./rest/partitions";

type Query = Record<string, string | undefined>;

/** The address of a view, of the partition that is shown. */
export function to(view: string, query: Query = {}): string {
  const wanted = wantedPartition.value || undefined;
  return path(view === "overview" ? "/" : `/ui/${view}`, { ...query, partition: wanted });
}

export const toApplication = (id: string) => to("application", { id });
export const toNode = (id: string) => to("node", { id });
export const toQueue = (queue: string) => to("queue", { path: queue });

/** What the address says, and a way to change it. */
export function useQuery(): [Record<string, string>, (change: Query) => void] {
  const { path: here, query, route } = useLocation();
  const change = useCallback(
    (changed: Query) => route(path(here, { ...query, ...changed }), true),
    [here, JSON.stringify(query), route],
  );
  return [query, change];
}
