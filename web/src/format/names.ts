// Requests and allocations under the names that people know: pods by namespace and name, and not by their UIDs.

/** The tag with the namespace of a pod. */
const NAMESPACE = "kubernetes.io/meta/namespace";
/** The tag with the name of a pod. */
const POD = "kubernetes.io/meta/podName";

/** What has a key, and perhaps the tags of a pod. */
export interface Keyed {
  allocationKey: string;
  allocationTags?: Record<string, string>;
}

/** The name of a request or an allocation: that of its pod, or else its key. */
export function nameOf({ allocationKey, allocationTags: tags }: Keyed): string {
  const [namespace, pod] = [tags?.[NAMESPACE], tags?.[POD]];
  return namespace && pod ? `${namespace}/${pod}` : allocationKey;
}

/** Names by key, of those that have another name than their key. */
export type Names = ReadonlyMap<string, string>;

/** The names of rows, for what has keys alone. */
export function namesOf(...lists: (Keyed[] | undefined)[]): Names {
  const all = lists.flatMap((rows) => rows ?? []).map((row): [string, string] => [row.allocationKey, nameOf(row)]);
  return new Map(all.filter(([key, name]) => key !== name));
}

/** The key of a name; what is none is taken for a key. */
export function keyOf(names: Names, name: string): string {
  for (const [key, known] of names) if (known === name) return key;
  return name;
}
