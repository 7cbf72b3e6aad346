// Display names of requests and allocations: pods by namespace and name instead of their UIDs.

/** Tag with the namespace of a pod. */
const NAMESPACE = "kubernetes.io/meta/namespace";
/** Tag with the name of a pod. */
const POD = "kubernetes.io/meta/podName";

/** An object with a key, and with the tags of a pod if it is one. */
export interface Keyed {
  allocationKey: string;
  allocationTags?: Record<string, string>;
}

/** Display name of a request or allocation: the name of its pod, or its key. */
export function nameOf({ allocationKey, allocationTags: tags }: Keyed): string {
  const [namespace, pod] = [tags?.[NAMESPACE], tags?.[POD]];
  return namespace && pod ? `${namespace}/${pod}` : allocationKey;
}

/** Display names by key, for keys whose name differs. */
export type Names = ReadonlyMap<string, string>;

/** Display names for rows that only have keys. */
export function namesOf(...lists: (Keyed[] | undefined)[]): Names {
  const all = lists.flatMap((rows) => rows ?? []).map((row): [string, string] => [row.allocationKey, nameOf(row)]);
  return new Map(all.filter(([key, name]) => key !== name));
}

/** The key of a display name; an unknown name is taken as a key. */
export function keyOf(names: Names, name: string): string {
  for (const [key, known] of names) if (known === name) return key;
  return name;
}

/** Cuts a long name in the middle: its beginning and its end tell it apart from others. */
export function cutName(name: string, most: number): string {
  if (name.length <= most) return name;
  const tail = Math.floor((most - 1) * 0.45);
  return `${name.slice(0, most - 1 - tail)}…${name.slice(name.length - tail)}`;
}

/** Cuts a long path of a queue to its last two segments, and these in the middle. */
export function cutQueue(path: string, most: number): string {
  if (path.length <= most) return path;
  const last = path.split(".").slice(-2).join(".");
  return last.length < path.length ? `…${cutName(last, most - 1)}` : cutName(path, most);
}
