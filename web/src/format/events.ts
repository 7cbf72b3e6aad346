// The numbers of events as words: the message `EventRecord` of the interface. Details that only say what the
// type and the change say already are shown as their last word.
import type { EventRecord } from "../rest/types";

const TYPES = ["", "request", "application", "node", "queue", "user or group"];
const CHANGES = ["", "set", "added", "removed"];

const DETAILS: Record<number, string> = {
  100: "request withdrawn",
  101: "request allocated",
  102: "request timed out",
  200: "allocation",
  201: "request",
  202: "rejected",
  203: "new",
  204: "accepted",
  205: "starting",
  206: "running",
  207: "completing",
  208: "completed",
  209: "failing",
  210: "failed",
  211: "resuming",
  212: "expired",
  213: "cannot run: queue",
  214: "can run again: queue",
  215: "cannot run: limit",
  216: "can run again: limit",
  300: "decommissioned",
  301: "ready",
  302: "schedulable",
  303: "allocation",
  304: "capacity",
  305: "used by others",
  306: "reservation",
  401: "dynamic queue",
  402: "kind",
  403: "maximum",
  404: "guarantee",
  405: "application",
  406: "allocation",
  407: "above its maximum",
  500: "allocation ended",
  501: "allocation preempted",
  502: "allocation timed out",
  503: "placeholder replaced",
  504: "allocation lost its node",
  600: "limit of the user",
  601: "limit of the group",
  602: "application counts",
  603: "use of the user",
  604: "use of the group",
  700: "takes turns in preemption",
};

/** The names of what an event is about, and of what it refers to: its pod is the one or the other. */
export function namesOfEvent({ type, objectID: object = "", referenceID: reference = "", pod }: EventRecord) {
  return type === 1 ? { object: pod ?? object, reference } : { object, reference: pod ?? reference };
}

/** What kind of object an event is of. */
export const kindOf = (type: number | undefined) => TYPES[type ?? 0] || "other";

/** All kinds, with their numbers. */
export const KINDS = TYPES.map((name, number) => ({ name, number })).filter(({ name }) => name);

/** What happened, in two words. */
export function whatHappened(change: number | undefined, detail: number | undefined): string {
  const known = DETAILS[detail ?? 0];
  const changed = CHANGES[change ?? 0] ?? "";
  if (!detail) return changed || "told";
  // A state that is entered, or an end that says so itself, needs no second word.
  const says = known ?? `detail ${detail}`;
  return change === 1 || (detail >= 500 && detail < 600) || (detail >= 100 && detail < 200)
    ? says
    : `${says} ${changed}`.trim();
}
