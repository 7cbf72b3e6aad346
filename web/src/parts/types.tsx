// Choice of the resource types that tables and bars show.
import { type Need, ranked, title } from "../format/amounts";
import { base, partition } from "../rest/partitions";
import { usePolled } from "../rest/poll";
import type { Queue } from "../rest/types";
import { useQuery } from "../routes";

/** Resource types to show, and a button for the others. */
export interface Types {
  names: string[];
  button: preact.JSX.Element;
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
  const button = <OtherTypes names={others} isAll={isAll} onToggle={() => change({ types: isAll ? undefined : "all" })} />;
  return { names: isAll ? names : names.slice(0, shown), button };
}

/** Button that shows or hides the types that are not always shown. Nothing if there are none. */
export function OtherTypes({ names, isAll, onToggle }: { names: string[]; isAll: boolean; onToggle: () => void }) {
  if (!names.length) return null;
  return (
    <button type="button" class="types" aria-pressed={isAll} title={names.map(title).join(", ")} onClick={onToggle}>
      {isAll ? "Fewer resources" : `${names.length} more ${names.length === 1 ? "resource" : "resources"}`}
    </button>
  );
}
