// Formats amounts. Memory and huge pages are in bytes, vcore in thousandths of a core, others as they are.
import type { Resources } from "../rest/types";

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** Formats a number with at most as many significant digits as are useful. */
export function short(number: number): string {
  const size = Math.abs(number);
  if (size >= 1e9) return `${trimmed(number / 1e9)}G`;
  if (size >= 1e6) return `${trimmed(number / 1e6)}M`;
  if (size >= 1e5) return `${Math.round(number / 1e3).toLocaleString("en")}k`;
  return trimmed(number);
}

function trimmed(number: number): string {
  return number.toLocaleString("en", { maximumFractionDigits: Math.abs(number) < 10 ? 1 : 0 });
}

/** Whether amounts of a resource type are bytes. */
export const isBytes = (name: string) =>
  name === "memory" || name === "ephemeral-storage" || name.startsWith("hugepages");

/** An amount of a resource, with its unit if it has one. */
export function amount(name: string, quantity: number): string {
  if (name === "vcore") return short(quantity / 1000);
  if (!isBytes(name)) return short(quantity);
  let unit = 0;
  while (Math.abs(quantity) >= 1024 && unit < UNITS.length - 1) {
    quantity /= 1024;
    unit++;
  }
  return `${short(quantity)} ${UNITS[unit]}`;
}

/** An amount times seconds, as one times hours: `1.5 core-hours`, `3 GiB-hours`. Few core-seconds stay such. */
export function hours(name: string, seconds: number): string {
  if (name === "vcore" && seconds < 360_000) return `${short(seconds / 1000)} core-seconds`;
  const text = amount(name, seconds / 3600);
  if (name === "vcore") return `${text} ${text === "1" ? "core-hour" : "core-hours"}`;
  return isBytes(name) ? `${text}-hours${name === "memory" ? "" : ` of ${name}`}` : `${text} ${name}-hours`;
}

/** Display name of a resource type. */
export const title = (name: string) => (name === "vcore" ? "cores" : name);

/** Whether a resource type counts GPUs, or parts of them. */
export const isGpu = (name: string) => /gpu|\bmig-/i.test(name);

/** Order of resource types: cores, memory, GPUs, then by name. */
export function byWeight(a: string, b: string): number {
  return rank(a) - rank(b) || (a < b ? -1 : a > b ? 1 : 0);
}

const rank = (name: string) => {
  const at = ["vcore", "memory"].indexOf(name);
  return at < 0 ? (isGpu(name) ? 2 : 3) : at;
};

/** Amounts of a partition, from which the types to show are chosen. */
export interface Need {
  capacity: Resources | undefined;
  used: Resources | undefined;
  pending: Resources | undefined;
}

/** Fewest resource types that are shown, if there are as many. */
const FEWEST = 2;

/**
 * Resource types in the order of their use to a reader: those that requests wait for, those in use, the others;
 * within each of these the scarcest first, then by weight. `shown` counts those at
 * the beginning that are always shown: all that requests wait for, GPUs, cores and memory.
 */
export function ranked({ capacity, used, pending }: Need): { names: string[]; shown: number } {
  const all = new Set([capacity, pending].flatMap((of) => Object.keys(of ?? {})));
  const need = (name: string) => (pending?.[name] ? 0 : used?.[name] ? 1 : 2);
  // In tenths, so that types do not change places with each allocation.
  const scarcity = (name: string) => Math.round(share((used?.[name] ?? 0) + (pending?.[name] ?? 0), capacity?.[name] ?? 0) / 10);
  const isShown = (name: string) => need(name) === 0 || rank(name) < 3;
  const order = (a: string, b: string) =>
    Number(isShown(b)) - Number(isShown(a)) || need(a) - need(b) || scarcity(b) - scarcity(a) || byWeight(a, b);
  const found = [...all].sort(order);
  return { names: found, shown: Math.min(found.length, Math.max(FEWEST, found.filter(isShown).length)) };
}

/** Names of the resource types in order. */
export const names = (resources: Resources | undefined) => Object.keys(resources ?? {}).sort(byWeight);

/** Several amounts in one line: `4 cores, 16 GiB`. */
export function amounts(resources: Resources | undefined): string {
  const shown = names(resources).filter((name) => resources?.[name]);
  return shown.map((name) => one(name, resources?.[name] ?? 0)).join(", ");
}

function one(name: string, quantity: number): string {
  const text = amount(name, quantity);
  if (name === "vcore") return `${text} ${text === "1" ? "core" : "cores"}`;
  return name === "memory" ? text : `${text} ${name}`;
}

/** A part of a whole in percent, from 0 to 100. */
export function share(part: number, whole: number): number {
  if (whole > 0) return Math.min(Math.max(part / whole, 0), 1) * 100;
  return part > 0 ? 100 : 0;
}

/** The lowest of a queue's limits and those above it, by name. */
export function narrowed(above: Resources, own: Resources | undefined): Resources {
  const least = { ...above };
  for (const [name, most] of Object.entries(own ?? {})) least[name] = Math.min(most, least[name] ?? most);
  return least;
}
