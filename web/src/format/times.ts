// Formats times. REST has nanoseconds since the epoch.
import { signal } from "@preact/signals";

/** The time, in milliseconds since the epoch. It advances once a second while the page is visible. */
export const now = signal(Date.now());

// Tests of functions have no document.
setInterval(() => {
  if (!globalThis.document?.hidden) now.value = Date.now();
}, 1000);

export const millis = (nanos: number) => nanos / 1e6;

/** A duration in milliseconds, formatted in its two largest units: `1 h 4 min`. */
export function span(ms: number): string {
  const s = Math.max(0, ms) / 1000;
  if (s < 1) return s < 0.001 ? "0 s" : `${Math.max(1, Math.round(s * 1000))} ms`;
  if (s < 60) return `${Math.floor(s)} s`;
  if (s < 3600) return two(s, 60, "min", 1, "s");
  if (s < 86_400) return two(s, 3600, "h", 60, "min");
  return two(s, 86_400, "d", 3600, "h");
}

function two(s: number, large: number, largeName: string, small: number, smallName: string): string {
  const rest = Math.floor((s % large) / small);
  return `${Math.floor(s / large)} ${largeName}${rest ? ` ${rest} ${smallName}` : ""}`;
}

const pad = (number: number, digits = 2) => String(number).padStart(digits, "0");

/** Time of day, with milliseconds. */
export function clock(nanos: number): string {
  const at = new Date(millis(nanos));
  const time = [at.getHours(), at.getMinutes(), at.getSeconds()].map((part) => pad(part)).join(":");
  return `${time}.${pad(at.getMilliseconds(), 3)}`;
}

/** Date and time of day. */
export function moment(nanos: number): string {
  const at = new Date(millis(nanos));
  return `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())} ${clock(nanos).slice(0, 8)}`;
}
