// Explains why requests of an application are pending, and what would let them run.
import { Fragment } from "preact";
import { title } from "../format/amounts";
import type { Names } from "../format/names";
import { Ago, Amounts, Count, Things } from "../parts/amount";
import { NameOfKey } from "../parts/name";
import { Cause, Says } from "../parts/says";
import { Section, Trouble } from "../parts/states";
import { base } from "../rest/partitions";
import { usePolled } from "../rest/poll";
import type { Explanation } from "../rest/types";
import { useQuery } from "../routes";
import { Cure } from "./cure";

/** Most entries of a reply. */
const ENTRIES = 20;
/** Most keys that are listed. */
const KEYS = 3;

/** The reply contains keys only; `names` maps them to display names. */
export function Why({ application, names }: { application: string; names: Names }) {
  const [query, change] = useQuery();
  const offset = Math.max(0, Number(query.offset) || 0);
  const of = base.value;
  const address = of && `${of}/application/${encodeURIComponent(application)}/explain?offset=${offset}`;
  const read = usePolled<Explanation[]>(address, 3);
  if (read.error?.status === 404) return null;
  const entries = read.data ?? [];
  const go = (next: number) => change({ offset: next > 0 ? String(next) : undefined });
  return (
    <Section title="Why it waits" id="why" class="wide" note="Each kind of request with everything that stands in its way, and the smallest change that would let it run.">
      <Trouble of={read} />
      {read.data && !entries.length && <p class="none">{offset ? "No more." : "It waits for nothing."}</p>}
      {entries.map((entry) => (
        <Entry key={`${entry.allocationKeys[0] ?? ""} ${entry.taskGroup ?? ""} ${entry.cause}`} of={entry} names={names} application={application} />
      ))}
      {(offset > 0 || entries.length === ENTRIES) && (
        <nav class="pager" aria-label="Further requests">
          <button type="button" disabled={!offset} onClick={() => go(offset - ENTRIES)}>Previous</button>
          <button type="button" disabled={entries.length < ENTRIES} onClick={() => go(offset + ENTRIES)}>Next</button>
        </nav>
      )}
    </Section>
  );
}

function Entry({ of: entry, names, application }: { of: Explanation; names: Names; application: string }) {
  const [first] = entry.obstacles;
  const others = entry.obstacles.slice(1);
  return (
    <article class="why" data-cause={entry.cause}>
      <h3>
        <Keys of={entry} names={names} /> <Cause of={entry.cause} /> {entry.object && <span class="quiet">{entry.object}</span>}
        {entry.since ? <span class="since">for <Ago at={entry.since} /></span> : null}
      </h3>
      <p class="message"><Says text={first?.message ?? entry.message} /></p>
      {others.map((obstacle) => (
        <p class="message" key={`${obstacle.cause} ${obstacle.object ?? ""}`}>
          <span class="quiet">and</span> <Says text={obstacle.message} />
        </p>
      ))}
      {entry.cure && (
        <Cure sentence={entry.cure} changes={entry.changes ?? []} application={application} />
      )}
      {entry.preemption && <p class="quiet">Preemption: <Says text={entry.preemption} /></p>}
      <Order of={entry} names={names} />
      <Nodes of={entry} />
    </article>
  );
}

function Keys({ of: entry, names }: { of: Explanation; names: Names }) {
  const named = entry.allocationKeys.slice(0, KEYS);
  const more = entry.count - named.length;
  return (
    <span class="keys">
      {named.map((key, at) => <Fragment key={key}>{at > 0 && ", "}<NameOfKey of={key} among={names} /></Fragment>)}
      {!named.length && (entry.taskGroup ? `group ${entry.taskGroup}` : "the gang")}
      {more > 0 && (named.length ? ` and ${more} more` : `: ${entry.count}`)}
      {entry.resource && <span class="quiet"> · <Amounts of={entry.resource} />{entry.count > 1 ? " each" : ""}</span>}
    </span>
  );
}

/** The order of queues from root down. */
function Order({ of: { order }, names }: { of: Explanation; names: Names }) {
  if (!order.length) return null;
  return (
    <ol class="order" aria-label="Its turn">
      {order.map((rank) => (
        <li key={rank.level + rank.in} class={rank.rank === 1 ? "first" : ""} title={rank.rank > 1 ? `first: ${names.get(rank.first) ?? rank.first}` : ""}>
          {rank.level} <b>{rank.rank}</b> of {rank.of} <span class="quiet">in {rank.in}{rank.rank > 1 && <>, behind <NameOfKey of={rank.first} among={names} /></>}</span>
        </li>
      ))}
    </ol>
  );
}

/** The obstacles, each with the number of nodes. */
function Nodes({ of: { nodes } }: { of: Explanation }) {
  const counts: [string, number][] = [
    ["closed", nodes.closed],
    ["too small when empty", nodes.tooSmall],
    ...Object.entries(nodes.noRoom).map(([name, count]): [string, number] => [`lack ${title(name)} now`, count]),
    ["reserved for others", nodes.reserved],
    ["outside its constraints", nodes.constraints],
    ["outside its domain", nodes.topology],
    ...Object.entries(nodes.predicates).map(([said, count]): [string, number] => [said, count]),
  ];
  const shown = counts.filter(([, count]) => count > 0);
  return (
    <p class="counts">
      <Things of={nodes.total} name="node" />{shown.length ? ": " : nodes.total === 1 ? ", which would do" : ", all of which would do"}
      {shown.map(([why, count]) => (
        <span key={why}>
          <b><Count of={count} /></b> {why}
        </span>
      ))}
    </p>
  );
}
