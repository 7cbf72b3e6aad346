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

interface Line {
  record?: EventRecord;
  remark?: string;
}

/**
 * Applications of the events of one moment, newest first. The event of an application follows those of the node and of
 * the user, so these are behind it. Applications may have equal keys.
 */
function applicationsOf(moment: (EventRecord | undefined)[]): (string | undefined)[] {
  const own = moment.map((one) => {
    if (one?.type === 1) return { key: one.objectID, application: one.referenceID };
    return one?.type === 2 ? { key: one.referenceID, application: one.objectID } : undefined;
  });
  const nearest = (at: number, isIt: (of: (typeof own)[number]) => boolean) => own.slice(0, at).findLast(isIt) ?? own.slice(at).find(isIt);
  return moment.map((one, at) => {
    if (own[at]) return own[at].application;
    const key = one?.referenceID;
    if (one?.type === 3) return key ? nearest(at, (of) => of?.key === key)?.application : undefined;
    return one?.type === 4 || one?.type === 5 ? nearest(at, Boolean)?.application : undefined;
  });
}

/** Groups of lines, newest first: those of one application and one moment, which have one cause. Other lines are alone. */
export function eventsTogether<T extends Line>(lines: T[]): T[][] {
  const groups: T[][] = [];
  for (let from = 0, to = 0; from < lines.length; from = to) {
    const time = lines[from]?.record?.timestampNano;
    for (to = from + 1; time !== undefined && lines[to]?.record?.timestampNano === time; ) to++;
    const moment = lines.slice(from, to);
    const applications = applicationsOf(moment.map((line) => line.record));
    const known = new Map<string, T[]>();
    moment.forEach((line, at) => {
      const application = applications[at];
      const group = application ? known.get(application) : undefined;
      if (group) {
        group.push(line);
        return;
      }
      const begun = [line];
      if (application) known.set(application, begun);
      groups.push(begun);
    });
  }
  return groups;
}

/** Whether events with this detail are about allocations. */
const isOfAllocation = (detail: number) => detail === 200 || (detail >= 500 && detail < 600);

/** What some events of one application and moment say together: those of the application itself, or else of its requests. */
export function saidTogether(records: EventRecord[]): { application: string; said: { what: string; count: number }[]; references: EventRecord[]; amounts: EventRecord[] } {
  // Reports of usage have amounts times seconds, and no change.
  const own = records.filter((one) => one.type === 2);
  const changes = own.filter((one) => one.eventChangeType || one.eventChangeDetail);
  const lead = [changes, own, records.filter((one) => one.type === 1)].find((some) => some.length) ?? [];
  const kinds = new Map<string, EventRecord[]>();
  for (const one of lead) {
    const what = whatHappened(one.eventChangeType, one.eventChangeDetail);
    kinds.set(what, [...(kinds.get(what) ?? []), one]);
  }
  // Amounts of different kinds have no sum; those of allocations go before those of requests.
  const withAmounts = [...kinds.values()].filter((of) => of.some((one) => one.eventChangeDetail && Object.keys(one.resource?.resources ?? {}).length));
  const ofAllocations = withAmounts.filter(([one]) => isOfAllocation(one?.eventChangeDetail ?? 0));
  const summed = [withAmounts, ofAllocations].find((some) => some.length === 1) ?? [];
  return {
    application: (own.length ? lead[0]?.objectID : lead[0]?.referenceID) ?? "",
    said: [...kinds].map(([what, of]) => ({ what, count: of.length })),
    references: [...new Map(changes.filter((one) => one.referenceID).map((one) => [one.referenceID, one])).values()],
    amounts: summed.flat(),
  };
}
