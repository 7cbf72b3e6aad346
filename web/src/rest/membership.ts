// Whether the service is a member of a cluster.
import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { usePolled } from "./poll";
import type { Membership } from "./types";

/** Path of the document of the cluster. */
export const CLUSTER = "/ws/v1/cluster";

/** Pause between two reads, in seconds: the answer changes at a restart of the service only. */
const PAUSE = 30;

/** Whether the service is a member of a cluster, and the caller may read it. */
export const isInCluster = signal(false);

/** Keeps `isInCluster` up to date. */
export function useIsInCluster(): void {
  const { data, error } = usePolled<Membership>(CLUSTER, PAUSE);
  useEffect(() => {
    if (error) isInCluster.value &&= error.status !== 403 && error.status !== 404;
    else if (data) isInCluster.value = data.name !== undefined;
  }, [data, error]);
}
