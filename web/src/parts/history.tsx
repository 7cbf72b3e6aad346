// Charts of the usage of a queue, user or node, over a range of time that the address names.
import { useMemo, useState } from "preact/hooks";
import { title } from "../format/amounts";
import { type Amounts, RANGES, amountsOf, lastOf, secondsOf, summary, typesOf, unitOf } from "../format/history";
import { path } from "../rest/client";
import { base } from "../rest/partitions";
import { usePolled } from "../rest/poll";
import type { SubjectHistory } from "../rest/types";
import { useQuery } from "../routes";
import { type Line, Lines } from "./chart";
import { Choice } from "./filters";
import { Section, Trouble } from "./states";
import { OtherTypes } from "./types";

const POINTS = 240;

interface Props {
  kind: "queue" | "user" | "node";
  name: string;
}

const NOTES = {
  queue: "What it uses, what waits in it, its guarantee and its maximum.",
  user: "What the user has in all queues, and the limit at the root if there is one.",
  node: "What is allocated here, and its capacity; an hour is kept, minute by minute.",
};

export function UsageHistory({ kind, name }: Props) {
  const [query, change] = useQuery();
  const of = base.value;
  const range = kind === "node" ? "1h" : query.range;
  const asked = { from: -secondsOf(range), points: POINTS };
  const read = usePolled<SubjectHistory>(of && path(`${of}/history/${kind}/${encodeURIComponent(name)}`, asked), 15);
  const history = read.data;
  const [isAll, setAll] = useState(false);
  const { names, shown } = useMemo(() => (history ? typesOf(history) : { names: [], shown: 0 }), [history]);
  const isOff = read.error?.status === 404 && read.error.message.startsWith("no history");
  return (
    <Section
      title="Over time"
      id="history"
      class="wide"
      note={NOTES[kind]}
      side={kind === "node" ? undefined : <Choice name="range" label="Time" value={query.range} of={RANGES} onChange={(range) => change({ range })} />}
    >
      <Trouble of={read} missing={isOff ? "This service keeps no history: the setting history.bytes is 0." : "Nothing is kept of it yet: it has to be there when a sample is taken."} />
      {history && !history.times.length && <p class="none">The first sample is taken within a minute.</p>}
      {history && history.times.length > 0 && (
        <div class="charts">
          {(isAll ? names : names.slice(0, shown)).map((type) => (
            <Usage key={type} who={name} name={type} history={history} />
          ))}
        </div>
      )}
      <OtherTypes names={names.slice(shown)} isAll={isAll} onToggle={() => setAll(!isAll)} />
    </Section>
  );
}

/** The chart of one resource type. */
function Usage({ who, name, history }: { who: string; name: string; history: SubjectHistory }) {
  const { of, times, lines, unit } = useMemo(() => drawn(history, name), [history, name]);
  return (
    <figure data-resource={name} data-points={times.length} data-used={lastOf(of.used)} data-waiting={lastOf(of.waiting)} data-guaranteed={lastOf(of.guaranteed)} data-maximum={lastOf(of.maximum)}>
      <figcaption>
        <b>{title(name)}</b> {summary(name, of)}{unit === "cores" || unit === name ? "" : <span class="quiet"> (chart in {unit})</span>}
        <span class="legend">
          {lines.map((line) => (
            <span key={line.name}><i class="line" data-look={line.look} /> {line.name}</span>
          ))}
        </span>
      </figcaption>
      <Lines label={`${title(name)} of ${who}: ${summary(name, of)}`} times={times} lines={lines} />
    </figure>
  );
}

function drawn(history: SubjectHistory, name: string) {
  const of = amountsOf(history, name);
  const all = Object.values(of).flatMap((values) => values ?? []);
  const { divisor, unit } = unitOf(name, all.reduce<number>((most, value) => Math.max(most, value ?? 0), 0));
  const line = (of: Amounts[keyof Amounts], look: Line["look"], name: string): Line[] =>
    of ? [{ name, look, values: of.map((value) => (value === null ? null : value / divisor)) }] : [];
  const lines = [
    ...line(of.used, "main", "used"),
    ...line(of.peak, "peak", "peak"),
    ...line(of.waiting, "wait", "waiting"),
    ...line(of.guaranteed, "promise", "guaranteed"),
    ...line(of.maximum, "bound", "maximum"),
  ];
  return { of, unit, lines, times: history.times.map((at) => at / 1e9) };
}
