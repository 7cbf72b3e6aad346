// Choice of the resource types that tables and bars show.
import { type Need, ranked, title } from "../format/amounts";
import { base, partition } from "../rest/partitions";
import { usePolled } from "../rest/poll";
import type { Queue } from "../rest/types";
import { useQuery } from "../routes";

/** Resource types to show, and a button for the others. */
export interface Types {
  names: string[];
  button: preact.JSX.Element | null;
}

/** Types of the partition on display. `root` is its root queue, if the view has read it. */
export function useTypes(root?: Queue): Types {
  const [{ types }, change] = useQuery();
  const read = usePolled<Queue>(root ? null : base.value && `${base.value}/queue/root`, 5);
  const { capacity, usedCapacity } = partition.value?.capacity ?? {};
  const need: Need = { capacity, used: usedCapacity, pending: (root ?? read.data)?.pendingResource };
  const { names, shown } = ranked(need);
  const others = names.slice(shown);
  const isAll = types === "all";
  const button = others.length ? (
    <button type="button" class="types" aria-pressed={isAll} title={others.map(title).join(", ")} onClick={() => change({ types: isAll ? undefined : "all" })}>
      {isAll ? "Fewer resources" : `${others.length} more ${others.length === 1 ? "resource" : "resources"}`}
    </button>
  ) : null;
  return { names: isAll ? names : names.slice(0, shown), button };
}
