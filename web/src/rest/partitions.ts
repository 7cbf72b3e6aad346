// The partitions that the caller may read, and the one on display.
import { computed, signal } from "@preact/signals";
import type { Partition } from "./types";

/** A partition with the name used in paths. */
export interface Named extends Partition {
  /** The plain name means the first partition of that name; the others have the name with their RM. */
  path: string;
}

/** All partitions, once they were read. */
export const partitions = signal<Named[] | undefined>(undefined);
/** The partition named by the address of the page. */
export const wantedPartition = signal<string>("");

/** The partition on display: the one in the address, or the first. */
export const partition = computed<Named | undefined>(
  () => partitions.value?.find((known) => known.path === wantedPartition.value) ?? partitions.value?.[0],
);

/** Path prefix of the partition's documents; `null` until it is known. */
export const base = computed<string | null>(() =>
  partition.value ? `/ws/v1/partition/${encodeURIComponent(partition.value.path)}` : null,
);

/** Assigns the names used in paths. */
export function named(found: Partition[]): Named[] {
  const seen = new Set<string>();
  return found.map((one) => {
    const isFirst = !seen.has(one.name);
    seen.add(one.name);
    return { ...one, path: isFirst ? one.name : `[${one.clusterId}]${one.name}` };
  });
}
