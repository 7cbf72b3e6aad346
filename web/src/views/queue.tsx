// View of one queue: limits, usage, users, and settings.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { ranked, title } from "../format/amounts";
import { isMine, isOwner, isWithin } from "../format/mine";
import { Ago, Amounts, Count, Level } from "../parts/amount";
import { ApplicationLink, QueueLink, Short } from "../parts/name";
import { UsageHistory } from "../parts/history";
import { Facts, Section, Tag, Trouble } from "../parts/states";
import { Table } from "../parts/table";
import { OtherTypes, useTypes } from "../parts/types";
import { path } from "../rest/client";
import { asked, isFiltered, mine, useMyApplications } from "../rest/mine";
import { base, partition } from "../rest/partitions";
import { usePolled } from "../rest/poll";
import type { Application, Queue, Usage } from "../rest/types";
import { to, toQueue, useQuery } from "../routes";
import { Uses } from "./applications";
import { Because } from "./because";
import { Running } from "./tree";
import { usageColumns, useUsage } from "./queues";

type Fact = [string, ComponentChildren];

/** Most applications shown here; the view of applications has all of them. */
const SHOWN = 50;

/** Priority of a queue without pending requests. */
const NO_PRIORITY = -2147483648;

export function QueueView() {
  const [query] = useQuery();
  const queuePath = query.path ?? "root";
  const of = base.value;
  const read = usePolled<Queue>(of && `${of}/queue/${encodeURIComponent(queuePath)}`, 1.5);
  const queue = read.data;
  return (
    <>
      <Trouble of={read} missing={`There is no queue ${queuePath}, or there is none any more.`} />
      {queue && (
        <>
          <Amount of={queue} />
          <UsageHistory kind="queue" name={queuePath} />
          <Applications path={queuePath} />
          <Users of={queue} />
          <Rules of={queue} />
        </>
      )}
    </>
  );
}

/** Maximum of a queue; without one, what it uses and what its parents leave. */
function most(queue: Queue, name: string): number {
  return queue.maxResource?.[name] ?? (queue.allocatedResource?.[name] ?? 0) + (queue.headroom?.[name] ?? 0);
}

function Amount({ of: queue }: { of: Queue }) {
  const has = partition.value?.capacity.capacity;
  const [isAll, setAll] = useState(false);
  const { names: all, shown } = ranked({
    capacity: { ...has, ...queue.maxResource, ...queue.guaranteedResource, ...queue.allocatedResource },
    used: queue.allocatedResource,
    pending: queue.pendingResource,
  });
  return (
    <Section
      title={<>What it uses <Tag of={queue.isManaged ? queue.status : `${queue.status}, dynamic`} /></>}
      id="summary"
      class="wide"
      side={<a href={to("decisions", { queue: queue.queuename })}>Decisions</a>}
    >
      <div class="loads">
        {(isAll ? all : all.slice(0, shown)).map((name) => (
          <div key={name}>
            <b>{title(name)}{queue.maxResource?.[name] === undefined && <span class="quiet"> of what its parents leave</span>}</b>
            <Level
              who={queue.queuename}
              name={name}
              used={queue.allocatedResource?.[name] ?? 0}
              wait={queue.pendingResource?.[name] ?? 0}
              promise={queue.guaranteedResource?.[name] ?? 0}
              limit={most(queue, name)}
            />
          </div>
        ))}
      </div>
      <OtherTypes names={all.slice(shown)} isAll={isAll} onToggle={() => setAll(!isAll)} />
      <Facts
        of={[
          ["Above it", queue.parent ? <a href={toQueue(queue.parent)}>{queue.parent}</a> : "nothing"],
          ["Running applications", <Running queue={queue} />],
          ["Has still room for", <Amounts of={queue.headroom} />],
          ...(queue.preemptingResource ? ([["Has to leave", <Amounts of={queue.preemptingResource} />]] as Fact[]) : []),
          ...(queue.allocatingAcceptedApps?.length ? ([["Count as running already", queue.allocatingAcceptedApps.join(", ")]] as Fact[]) : []),
        ]}
      />
      {queue.childNames?.length ? (
        <p class="names">
          <b>Below it</b> {queue.childNames.map((name) => <QueueLink key={name} path={name} />)}
        </p>
      ) : null}
    </Section>
  );
}

function Applications({ path: queue }: { path: string }) {
  const of = base.value;
  // The queue of the filter if it is below this one.
  const below = mine.value.queue && isWithin(mine.value.queue, queue) ? mine.value.queue : queue;
  const read = usePolled<Application[]>(of && path(`${of}/applications/active`, { ...asked.value, brief: "1", queue: below, limit: SHOWN }), 2);
  const rows = (read.data ?? []).filter((row) => isMine(mine.value, row));
  return (
    <Section
      title="Applications"
      id="applications"
      class="wide"
      note="Those that live in it and below it, by id."
      side={<a href={to("applications", { queue })}>Search and sort them</a>}
    >
      <Trouble of={read} />
      {read.data && !rows.length && <p class="none">{isFiltered.value ? "None passes the filter." : "None at the moment."}</p>}
      {rows.length > 0 && (
        <Table
          caption="Applications of this queue"
          rows={rows}
          keyOf={(row) => row.applicationID}
          columns={[
            { id: "id", head: "Application", cell: (row) => <ApplicationLink id={row.applicationID} /> },
            { id: "state", head: "State", cell: (row) => <Tag of={row.applicationState} /> },
            { id: "user", head: "User", cell: (row) => row.user && <Short name={row.user} /> },
            { id: "submitted", head: "Submitted", number: true, cell: (row) => <Ago at={row.submissionTime} /> },
            { id: "allocations", head: "Allocations", number: true, cell: (row) => <Count of={row.allocationCount} /> },
            { id: "waiting", head: "Pending", number: true, cell: (row) => <Count of={row.pendingCount} /> },
            { id: "uses", head: "Uses", number: true, cell: (row) => <Uses of={row} /> },
            { id: "why", head: "Waits because", class: "text", cell: (row) => <Because of={row} seconds={10} /> },
          ]}
        />
      )}
      {read.next !== null && <p class="none">and more</p>}
    </Section>
  );
}

/** Users of a queue. Without a limit, a bar is full at what the queue may use. */
function Users({ of }: { of: Queue }) {
  const queue = of.queuename;
  const { names: types } = useTypes(of);
  const whole = Object.fromEntries(types.map((name) => [name, most(of, name)]));
  const here = (usage: Usage): Usage[] =>
    usage.queuePath === queue ? [usage] : (usage.children ?? []).filter((child) => queue === child.queuePath || queue.startsWith(`${child.queuePath}.`)).flatMap(here);
  const { users, rows: all } = useUsage(3, here);
  const own = useMyApplications();
  const rows = isFiltered.value ? all.filter(({ kind, name }) => isOwner(kind, name, mine.value, own ?? [])) : all;
  return (
    <Section title="Users and groups" id="usage" class="wide" note="Who uses it, and what each may use here by a limit of this queue.">
      <Trouble of={users} />
      {users.data && !rows.length && <p class="none">{all.length ? "None passes the filter." : "Nobody uses it, and it has no limits."}</p>}
      {rows.length > 0 && (
        <Table caption="Users and groups in this queue" columns={usageColumns(types, () => whole)} rows={rows.slice(0, 200)} keyOf={(row) => `${row.kind} ${row.name}`} />
      )}
    </Section>
  );
}

function Rules({ of: queue }: { of: Queue }) {
  const { template } = queue;
  return (
    <Section title="Rules" id="rules" class="wide" note="In which order it chooses, and what others may take from it.">
      <Facts
        of={[
          ["Order of applications", queue.isLeaf ? (queue.sortingPolicy ?? "–") : "by share of what is guaranteed"],
          ["Priorities count", queue.prioritySorting ? "yes" : "no"],
          ["Priority now", queue.currentPriority === NO_PRIORITY ? "nothing waits" : String(queue.currentPriority)],
          ["Added to priorities", String(queue.priorityOffset ?? 0)],
          ["Priorities end here", queue.isPriorityFence ? "yes" : "no"],
          ["May take part in preemption", queue.preemptionEnabled ? "yes" : "no"],
          ["Takes nothing from outside", queue.isPreemptionFence ? "yes, it is a fence" : "no"],
          ["Preempts after", queue.preemptionDelay],
          ["Gives back above its maximum after", queue.quotaPreemptionDelay === "0s" ? "never" : queue.quotaPreemptionDelay],
          ...(template
            ? ([
                ["Queues made below it get at most", <Amounts of={template.maxResource} />],
                ["and are guaranteed", <Amounts of={template.guaranteedResource} />],
              ] as Fact[])
            : []),
          ...Object.entries(queue.properties ?? {}),
        ]}
      />
    </Section>
  );
}
