// The timeline of an application: its states, its waits by cause, its reservations and held places, and decisions about it.
import { useMemo } from "preact/hooks";
import { timeline } from "../format/timeline";
import { now } from "../format/times";
import { Section } from "../parts/states";
import { Marks, Spans, Strip } from "../parts/timeline";
import { path } from "../rest/client";
import { base } from "../rest/partitions";
import { usePolled } from "../rest/poll";
import type { Application, Decision, Explanation } from "../rest/types";

/** Most decisions that are read for the marks. */
const LOOKED = 500;
/** Most marks and spans in the lists. */
const LISTED = 24;

export function TimelineOf({ of: it }: { of: Application }) {
  const of = base.value;
  const id = it.applicationID;
  const isOver = it.finishedTime !== undefined;
  const decisions = usePolled<Decision[]>(of && path(`${of}/decisions`, { application: id, limit: LOOKED }), isOver ? 60 : 3);
  const explained = usePolled<Explanation[]>(of && !isOver && it.requests?.length ? `${of}/application/${encodeURIComponent(id)}/explain` : null, 3);
  const until = now.value * 1e6;
  const shown = useMemo(() => timeline(it, decisions.data ?? [], explained.data ?? [], until), [it, decisions.data, explained.data, until]);
  const waits = shown.lanes.find((lane) => lane.name === "Waiting")?.spans ?? [];
  if (!shown.lanes.length) return null;
  return (
    <Section title="Timeline" id="timeline" class="wide" note="Its states, what its requests waited for, and decisions about it.">
      <Strip of={shown} />
      {(waits.length > 0 || shown.marks.length > 0) && (
        <details class="lists">
          <summary>With times</summary>
          <div class="columns">
            {waits.length > 0 && <div><h3>Waited for</h3><Spans of={waits.slice(-LISTED)} /></div>}
            {shown.marks.length > 0 && <div><h3>Decisions</h3><Marks of={shown.marks.slice(0, LISTED)} /></div>}
          </div>
        </details>
      )}
    </Section>
  );
}
