// Addresses of views. A view is a path below /ui/, and its complete state is in the query, so a link shows the
// same. The server answers each of these paths with the same page.
import { createContext } from "preact";
import { useLocation } from "preact-iso";
import { useCallback, useContext } from "preact/hooks";
import { besideOf } from "./format/beside";
import { isWide } from "./parts/screen";
import { path } from "./rest/client";
import { mineWanted } from "./rest/mine";
import { wantedPartition } from "./rest/partitions";

type Query = Record<string, string | undefined>;

/** Address of a view, for the partition on display and the filter of all views. */
export function to(view: string, query: Query = {}): string {
  const wanted = wantedPartition.value || undefined;
  return path(view === "overview" ? "/" : `/ui/${view}`, { ...query, mine: mineWanted.value, partition: wanted });
}

export const toApplication = (id: string) => to("application", { id });
export const toNode = (id: string) => to("node", { id });
export const toQueue = (queue: string) => to("queue", { path: queue });

type Queried = [Record<string, string>, (change: Query) => void];

/** The query of a view beside a list; `null` in views that have the address. */
export const Inner = createContext<Queried | null>(null);

/** The query of the view, and a function to change it. */
export function useQuery(): Queried {
  const inner = useContext(Inner);
  const { path: here, query, route } = useLocation();
  const change = useCallback(
    (changed: Query) => route(path(here, { ...query, ...changed }), true),
    [here, JSON.stringify(query), route],
  );
  return inner ?? [query, change];
}

/** Opens an address: beside the list if there is room and it is of a single object, else in place of it. */
export function useOpen(): (href: string) => void {
  const { path: here, query, route } = useLocation();
  return (href) => {
    const open = isWide.value ? besideOf(href) : undefined;
    route(open ? path(here, { ...query, open }) : href);
  };
}
