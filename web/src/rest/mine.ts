// The filter of all views, as the address has it, and the applications that pass it.
import { computed, signal } from "@preact/signals";
import { type Mine, isMine, mineOf, mineText } from "../format/mine";
import { path } from "./client";
import { base } from "./partitions";
import { type Polled, usePolled } from "./poll";
import type { Application } from "./types";

const KEY = "mine";

/** Most applications that are read for the filter. */
const MOST = 1000;
/** Most applications whose allocations are read to find their nodes. */
const MOST_WHOLE = 200;

/** Text of the filter in the address. */
export const mineWanted = signal("");

export const mine = computed<Mine>(() => mineOf(mineWanted.value));

/** Whether a filter is set. */
export const isFiltered = computed(() => mineText(mine.value) !== "");

/** Keeps the filter in this browser. */
export function keepMine(text: string): void {
  if (text) localStorage.setItem(KEY, text);
  else localStorage.removeItem(KEY);
}

/** Adds the kept filter to an address without one. */
export function restoreMine(): void {
  const address = new URL(location.href);
  const kept = localStorage.getItem(KEY);
  if (!kept || address.searchParams.has(KEY)) return;
  address.searchParams.set(KEY, kept);
  history.replaceState(null, "", address);
}

/** Query of lists of applications for the filter. Groups are compared by the page. */
export const asked = computed(() => ({ user: mine.value.user, queue: mine.value.queue, label: mine.value.label }));

/** Live applications that pass the filter; `undefined` until they are read, and without a filter. */
export function useMyApplications(): Application[] | undefined {
  const of = base.value;
  const read = usePolled<Application[]>(of && isFiltered.value ? path(`${of}/applications/active`, { brief: "1", limit: MOST, ...asked.value }) : null, 3);
  return read.data?.filter((one) => isMine(mine.value, one));
}

/** Live applications with pending requests that pass the filter, the oldest submission first. */
export function useWaiting(seconds: number): Polled<Application[]> {
  const of = base.value;
  const read = usePolled<Application[]>(of && path(`${of}/applications/active`, { brief: "1", order: "waiting", limit: MOST, ...asked.value }), seconds);
  const data = read.data?.filter((one) => one.pendingCount && isMine(mine.value, one));
  return { ...read, data };
}

/** Nodes with allocations of these applications; `undefined` without a filter. */
export function useMyNodes(): Set<string> | undefined {
  const of = base.value;
  const read = usePolled<Application[]>(of && isFiltered.value ? path(`${of}/applications/active`, { limit: MOST_WHOLE, ...asked.value }) : null, 5);
  if (!isFiltered.value) return undefined;
  const nodes = (read.data ?? []).filter((one) => isMine(mine.value, one)).flatMap((one) => (one.allocations ?? []).map((row) => row.nodeId ?? ""));
  return new Set(nodes);
}
