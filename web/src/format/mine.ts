// The filter of all views: what is of one user, one group or one queue, or has one label.

/** The filter; an empty one shows everything. */
export interface Mine {
  user?: string;
  group?: string;
  /** A queue, with those below it. */
  queue?: string;
  /** A tag of applications: `NAME=VALUE`, or `NAME` for any value. The service compares it. */
  label?: string;
}

export const FIELDS = ["user", "group", "queue", "label"] as const;

/** Text of a filter in the address: `user:ann queue:root.a`. */
export function mineText(mine: Mine): string {
  return FIELDS.flatMap((field) => (mine[field] ? [`${field}:${mine[field]}`] : [])).join(" ");
}

/** The filter of a text; words without a known field are left out. */
export function mineOf(text: string): Mine {
  const mine: Mine = {};
  for (const word of text.split(" ")) {
    const [field = "", value] = [word.slice(0, word.indexOf(":")), word.slice(word.indexOf(":") + 1)];
    const known = FIELDS.find((one) => one === field);
    if (known && value) mine[known] = value;
  }
  return mine;
}

/** Whether a queue is this one or below it. */
export const isWithin = (path: string, queue: string) => path === queue || path.startsWith(`${queue}.`);

interface Owned {
  queueName: string;
  user?: string;
  groups?: string[];
}

/** Whether an application that the service has selected by label passes the filter. */
export function isMine({ user, group, queue }: Mine, of: Owned): boolean {
  return (!user || of.user === user) && (!group || (of.groups ?? []).includes(group)) && (!queue || isWithin(of.queueName, queue));
}

/** Whether a user or group is shown: the one of the filter, or, where it selects by label, one of the selected applications. */
export function isOwner(kind: "user" | "group", name: string, { user, group, label }: Mine, applications: Owned[]): boolean {
  const isNamed = !(user || group) || (kind === "user" ? name === user : name === group);
  const isOf = (one: Owned) => (kind === "user" ? one.user === name : (one.groups ?? []).includes(name));
  return isNamed && (!label || applications.some(isOf));
}

/** Whether a queue is shown: it is within the queue of the filter, holds one of the applications, or is above such a queue. */
export function isQueueShown(path: string, { user, group, queue, label }: Mine, applications: Owned[]): boolean {
  const isOfQueue = !queue || isWithin(path, queue) || isWithin(queue, path);
  const isOfOwner = !(user || group || label) || applications.some((one) => isWithin(one.queueName, path));
  return isOfQueue && isOfOwner;
}
