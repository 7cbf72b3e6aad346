// The partitions that the caller may read, and the one that is shown.
import { computed, signal } from "@preact/signals";
import type { Partition } from "./types";

/** A partition as paths name it. */
export interface Named extends Partition {
  /** The plain name means the first of that name; the others are named with their RM. */
  path: string;
}

/** All of them, once they were read. */
export const partitions = signal<Named[] | undefined>(undefined);
/** The one that the address of the page names. */
export const wantedPartition = signal<string>("");

/** The one that is shown: the first, unless another one is wanted. */
export const partition = computed<Named | undefined>(
  () => partitions.value?.find((known) => known.path === wantedPartition.value) ?? partitions.value?.[0],
);

/** The path of everything that is of the partition; `null` before it is known. */
export const base = computed<string | null>(() =>
  partition.value ? `/ws/v1/partition/${encodeURIComponent(partition.value.path)}` : null,
);

/** Names partitions as paths do. */
export function named(found: Partition[]): Named[] {
  const seen = new Set<string>();
  return found.map((one) => {
    const isFirst = !seen.has(one.name);
    seen.add(one.name);
    return { ...one, path: isFirst ? one.name : `[${one.clusterId}]${one.name}` };
  });
}
