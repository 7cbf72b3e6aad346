// Names for the numbers of events: the message `EventRecord` of the interface. If a detail repeats the words of
// the type and the change, only its last word is shown.
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

/** Names of the object and of the reference of an event; its pod is one of them. */
export function namesOfEvent({ type, objectID: object = "", referenceID: reference = "", pod }: EventRecord) {
  return type === 1 ? { object: pod ?? object, reference } : { object, reference: pod ?? reference };
}

/** Type of the object of an event. */
export const kindOf = (type: number | undefined) => TYPES[type ?? 0] || "other";

/** All types with their numbers. */
export const KINDS = TYPES.map((name, number) => ({ name, number })).filter(({ name }) => name);

/** Type and change of an event, in two words. */
export function whatHappened(change: number | undefined, detail: number | undefined): string {
  const known = DETAILS[detail ?? 0];
  const changed = CHANGES[change ?? 0] ?? "";
  if (!detail) return changed || "reported";
  // The details name the state entered or the end, so the change needs no word of its own.
  const says = known ?? `detail ${detail}`;
  return change === 1 || (detail >= 500 && detail < 600) || (detail >= 100 && detail < 200)
    ? says
    : `${says} ${changed}`.trim();
}
