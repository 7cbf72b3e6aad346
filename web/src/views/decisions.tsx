// View of decisions: placements, holds and evictions, each with the deciding rule.
import { useMemo } from "preact/hooks";
import { type DecisionGroup, decidedTogether, nodesOf, preemptorOf } from "../format/decided";
import { type Keyed, type Names, keyOf, namesOf } from "../format/names";
import { clock, millis, moment, span } from "../format/times";
import { Ago, Count, Things } from "../parts/amount";
import { Choice, Field, Filters } from "../parts/filters";
import { ApplicationLink, Called, NameOfKey, NodeLink, QueueLink, Short } from "../parts/name";
import { Further } from "../parts/pager";
import { Says } from "../parts/says";
import { Section, Tag, Trouble } from "../parts/states";
import { path } from "../rest/client";
import { isFiltered, mine, useMyApplications } from "../rest/mine";
import { base, partition } from "../rest/partitions";
import { usePolled } from "../rest/poll";
import type { Decision } from "../rest/types";
import { useQuery } from "../routes";

const LIMIT = 50;
/** Most decisions that are read where the page looks for those of a user or group. */
const MOST_FILTERED = 500;

const KINDS: [string, string][] = [
  ["", "all"],
  ["allocation", "placed"],
  ["reservation", "reserved"],
  ["eviction", "evicted"],
];

const VERBS = { allocation: "Placed", reservation: "Reserved", eviction: "Evicted" };

export function Decisions() {
  const [query, change] = useQuery();
  const { application, queue, node, key, kind, after } = query;
  const of = base.value;
  const { names, areRead } = useNames(application, node);
  const own = useMyApplications();
  const { user, group, label } = mine.value;
  // The service selects by queue; the applications of the others are selected here.
  const isOwned = Boolean(user || group || label);
  const asked = { application, queue: queue ?? mine.value.queue, node, key: key && keyOf(names, key), kind, limit: isOwned ? MOST_FILTERED : LIMIT, after };
  // The filter by name waits until the names are known.
  const address = of && (!key || areRead) ? path(`${of}/decisions`, asked) : null;
  // The first page shows the latest decisions; later pages hardly change and are polled rarely.
  const read = usePolled<Decision[]>(address, after ? 60 : 2);
  const narrow = (changed: Record<string, string | undefined>) => change({ after: undefined, ...changed });
  const ids = new Set(own?.map((one) => one.applicationID));
  const decisions = (read.data ?? []).filter((one) => !isOwned || ids.has(one.applicationId));
  const isNarrowed = isFiltered.value || [application, queue, node, key, kind].some(Boolean);
  return (
    <Section label="Decisions" id="decisions" class="wide">
      <Filters label="Decisions">
        <Choice name="kind" label="Which" value={kind} of={KINDS} onChange={(kind) => narrow({ kind })} />
        <Field name="application" label="Application" value={application} onChange={(application) => narrow({ application })} />
        <Field name="queue" label="Queue" value={queue} onChange={(queue) => narrow({ queue })} />
        <Field name="node" label="Node" value={node} onChange={(node) => narrow({ node })} />
        <Field name="key" label="Request" value={key} onChange={(key) => narrow({ key })} />
      </Filters>
      <Trouble of={read} missing="This service keeps no decisions: it is older than that, or its partition is gone." />
      {read.data && !decisions.length && <Nothing isNarrowed={isNarrowed} among={isOwned ? read.data.length : 0} />}
      <ol class="decisions">
        {decidedTogether(decisions).map((group) => (
          <li key={group.first.id}>
            {group.all.length === 1 ? <One of={group.first} names={names} /> : <Together of={group} names={names} />}
          </li>
        ))}
      </ol>
      {read.data && read.next === null && !isNarrowed && <Older last={decisions[decisions.length - 1]} />}
      <Further view="decisions" next={read.next} count={asked.limit} />
    </Section>
  );
}

/** Objects with keys and tags in the document of an application or a node. */
interface Rows {
  requests?: Keyed[];
  allocations?: Keyed[];
}

/** Names of the selected application's objects, or of those on the selected node. A decision only names its own pod. */
function useNames(application: string | undefined, node: string | undefined): { names: Names; areRead: boolean } {
  const rows = application ? `application/${encodeURIComponent(application)}` : node ? `node/${encodeURIComponent(node)}` : null;
  const { data, error } = usePolled<Rows>(base.value && rows && `${base.value}/${rows}`, 3);
  const names = useMemo(() => namesOf(data?.requests, data?.allocations), [data]);
  return { names, areRead: !rows || data !== undefined || error !== undefined };
}

/** Why there are no decisions. `among`: number of those that were searched for live applications of the filter. */
function Nothing({ isNarrowed, among }: { isNarrowed: boolean; among: number }) {
  const why =
    partition.value?.decisionsKept === 0
      ? "No decisions are kept here: the setting decisions.kept is 0."
      : among
        ? `None among the last ${among}: only those of live applications are searched.`
        : isNarrowed
          ? "No decision that is kept is of this kind."
          : "Nothing was decided yet.";
  return <p class="none">{why}</p>;
}

/** Whether decisions were dropped: they are numbered from 1 on. */
function Older({ last }: { last: Decision | undefined }) {
  const gone = last ? last.id - 1 : 0;
  return gone > 0 ? <p class="gap"><Count of={gone} /> older decisions are not kept any more</p> : null;
}

/** Decisions of one moment, application, kind and rule, in a row that opens. */
function Together({ of: { first, all }, names }: { of: DecisionGroup; names: Names }) {
  const { first: node, more } = nodesOf(all);
  const preemptor = preemptorOf(first);
  return (
    <details class="together">
      <summary>
        <time title={moment(first.time)}>{clock(first.time)}</time>
        <Tag of={VERBS[first.kind]} />
        <span class="what">
          <ApplicationLink id={first.applicationId} /> <b><Things of={all.length} name={first.kind === "reservation" ? "request" : "allocation"} /></b>
        </span>
        <span class="where">
          {first.kind === "eviction" ? "from" : "on"} <NodeLink id={node} />{more > 0 && <span class="quiet"> and {more} more</span>}
        </span>
        <span class="ruled">{preemptor ? <>for <ApplicationLink id={preemptor.application} />{preemptor.why && <>: <Says text={preemptor.why} /></>}</> : first.ruled}</span>
      </summary>
      <ol class="decisions">
        {all.map((decision) => (
          <li key={decision.id}>
            <One of={decision} names={names} />
          </li>
        ))}
      </ol>
    </details>
  );
}

function One({ of: it, names: known }: { of: Decision; names: Names }) {
  const { nodes } = it;
  // A decision keeps the name of its pod, even if the pod no longer exists.
  const names = it.pod ? new Map([...known, [it.allocationKey, it.pod]]) : known;
  // An eviction lists the compared victims, other decisions list queues and applications.
  const first = (name: string) => (it.kind === "eviction" ? <NameOfKey of={name} among={names} /> : <Short name={name} />);
  return (
    <details class="decision" data-id={it.id}>
      <summary>
        <time title={moment(it.time)}>{clock(it.time)}</time>
        <Tag of={VERBS[it.kind]} />
        <span class="what">
          <ApplicationLink id={it.applicationId} /> <span class="key"><NameOfKey of={it.allocationKey} among={names} /></span>
        </span>
        <span class="where">
          {it.kind === "eviction" ? "from" : "on"} <NodeLink id={it.nodeId} />
        </span>
        <span class="ruled">{it.ruled}</span>
      </summary>
      <div class="grounds">
        {it.preemptedFor && <p><Says text={it.preemptedFor} /></p>}
        <p class="quiet">
          In <QueueLink path={it.queueName} />, number <Count of={it.id} />, <Ago at={it.time} /> ago
          {it.decidedTime ? <>, decided {span(millis(it.time - it.decidedTime))} before it was sent</> : null}.
        </p>
        {it.levels?.length ? (
          <ol class="levels">
            {it.levels.map((level) => (
              <li key={level.queue}>
                <span class="quiet">in {level.queue}, by {level.order}:</span> <b>{first(level.chosen)}</b>
                {level.runnerUp ? <> before <Called name={level.runnerUpPod ?? level.runnerUp} of={level.runnerUp} />: <Says text={level.rule} /></> : <>, the only one</>}
              </li>
            ))}
          </ol>
        ) : null}
        {nodes && (
          <p class="counts">
            <Things of={nodes.tried} name="node" /> tried{nodes.passedOver?.length ? "; passed over: " : ""}
            {(nodes.passedOver ?? []).map((passed) => (
              <span key={passed.reason}>
                <b><Count of={passed.count} /></b> <Says text={passed.reason} />
                {passed.example && <> (such as <NodeLink id={passed.example} />)</>}
              </span>
            ))}
          </p>
        )}
      </div>
    </details>
  );
}
