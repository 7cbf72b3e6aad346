// Why an application waits, in a row of a list.
import { useEffect, useRef, useState } from "preact/hooks";
import { Cause, Says } from "../parts/says";
import { base } from "../rest/partitions";
import { usePolled } from "../rest/poll";
import type { Application, Explanation } from "../rest/types";
import { toApplication } from "../routes";

interface Props {
  of: Application;
  seconds: number;
}

/** The reason of an application with pending requests. */
export const Because = (props: Props) => (props.of.pendingCount ? <Reason {...props} /> : null);

/**
 * The obstacle of the first request of an application, as its own view has it. Read while the row is on the
 * screen; before that, the row has the last cause found.
 */
function Reason({ of: row, seconds }: Props) {
  const place = useRef<HTMLSpanElement>(null);
  const [isSeen, setSeen] = useState(false);
  useEffect(() => {
    const element = place.current;
    if (!element) return;
    const observer = new IntersectionObserver((entries) => setSeen(entries.at(-1)?.isIntersecting ?? false));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  const read = usePolled<Explanation[]>(isSeen ? base.value && `${base.value}/application/${encodeURIComponent(row.applicationID)}/explain` : null, seconds);
  const [first] = read.data ?? [];
  const others = (first?.obstacles.length ?? 0) - 1;
  return (
    <span class="because" ref={place}>
      <Says text={first?.message ?? row.waitsFor} /> {first && <Cause of={first.cause} />}
      {others > 0 && <> <a href={toApplication(row.applicationID)}>and {others} more {others === 1 ? "obstacle" : "obstacles"}</a></>}
    </span>
  );
}
