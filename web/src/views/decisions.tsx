// Who was placed, kept a place for, or had to leave, and which rule decided.
import { Ago, Count } from "../parts/amount";
import { Choice, Field, Filters } from "../parts/filters";
import { Further } from "../parts/pager";
import { Section, Tag, Trouble } from "../parts/states";
import { clock, moment } from "../format/times";
import { path } from "../rest/client";
import { base, partition } from "../rest/partitions";
import { usePolled } from "../rest/poll";
import type { Decision } from "../rest/types";
import { toApplication, toNode, toQueue, useQuery } from "../routes";

const LIMIT = 50;

const KINDS: [string, string][] = [
  ["", "all"],
  ["allocation", "placed"],
  ["reservation", "kept a place for"],
  ["eviction", "had to leave"],
];

const VERBS = { allocation: "Placed", reservation: "Reserved", eviction: "Evicted" };

export function Decisions() {
  const [query, change] = useQuery();
  const { application, queue, node, key, kind, after } = query;
  const of = base.value;
  const asked = { application, queue, node, key, kind, limit: LIMIT, after };
  // A page that was turned to stays as it is; the first one has the latest.
  const read = usePolled<Decision[]>(of && path(`${of}/decisions`, asked), after ? 60 : 2);
  const narrow = (changed: Record<string, string | undefined>) => change({ after: undefined, ...changed });
  const decisions = read.data ?? [];
  const isNarrowed = [application, queue, node, key, kind].some(Boolean);
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
      {read.data && !decisions.length && <Nothing isNarrowed={isNarrowed} />}
      <ol class="decisions">
        {decisions.map((decision) => (
          <li key={decision.id}>
            <One of={decision} />
          </li>
        ))}
      </ol>
      {read.data && read.next === null && !isNarrowed && <Older last={decisions[decisions.length - 1]} />}
      <Further view="decisions" next={read.next} count={LIMIT} />
    </Section>
  );
}

function Nothing({ isNarrowed }: { isNarrowed: boolean }) {
  const why =
    partition.value?.decisionsKept === 0
      ? "No decisions are kept here: the setting decisions.kept is 0."
      : isNarrowed
        ? "No decision that is kept is of this kind."
        : "Nothing was decided yet.";
  return <p class="none">{why}</p>;
}

/** More was decided than is kept: they are numbered from 1 on. */
function Older({ last }: { last: Decision | undefined }) {
  const gone = last ? last.id - 1 : 0;
  return gone > 0 ? <p class="gap"><Count of={gone} /> older decisions are not kept any more</p> : null;
}

function One({ of: it }: { of: Decision }) {
  const { nodes } = it;
  return (
    <details class="decision" data-id={it.id}>
      <summary>
        <time title={moment(it.time)}>{clock(it.time)}</time>
        <Tag of={VERBS[it.kind]} />
        <span>
          <a href={toApplication(it.applicationId)}>{it.applicationId}</a> <span class="key">{it.allocationKey}</span>
        </span>
        <span>
          {it.kind === "eviction" ? "from" : "on"} <a href={toNode(it.nodeId)}>{it.nodeId}</a>
        </span>
        <span class="ruled">{it.ruled}</span>
      </summary>
      <div class="grounds">
        {it.preemptedFor && <p>{it.preemptedFor}</p>}
        <p class="quiet">
          In <a href={toQueue(it.queueName)}>{it.queueName}</a>, number <Count of={it.id} />, <Ago at={it.time} /> ago
          {it.decidedTime ? <>, decided at {clock(it.decidedTime)}</> : null}.
        </p>
        {it.levels?.length ? (
          <ol class="levels">
            {it.levels.map((level) => (
              <li key={level.queue}>
                <span class="quiet">in {level.queue}, by {level.order}:</span> <b>{level.chosen}</b>
                {level.runnerUp ? <> before {level.runnerUp}: {level.rule}</> : <> had no rival</>}
              </li>
            ))}
          </ol>
        ) : null}
        {nodes && (
          <p class="counts">
            <Count of={nodes.tried} /> nodes tried{nodes.passedOver?.length ? "; passed over: " : ""}
            {(nodes.passedOver ?? []).map((passed) => (
              <span key={passed.reason}>
                <b><Count of={passed.count} /></b> {passed.reason}
                {passed.example && <> (such as <a href={toNode(passed.example)}>{passed.example}</a>)</>}
              </span>
            ))}
          </p>
        )}
      </div>
    </details>
  );
}
