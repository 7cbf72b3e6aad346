// View of one application: usage, pending requests, and history.
import { Fragment } from "preact";
import { useState } from "preact/hooks";
import { whatHappened } from "../format/events";
import { nameOf, namesOf } from "../format/names";
import { Ago, Amounts, Count, Hours } from "../parts/amount";
import { Name, NodeLink, Short } from "../parts/name";
import { Says } from "../parts/says";
import { Facts, Section, Tag, Trouble } from "../parts/states";
import { type Column, Table, sorted } from "../parts/table";
import { clock, millis, moment, span } from "../format/times";
import { ReadError, path } from "../rest/client";
import { base } from "../rest/partitions";
import { type Polled, useAllPages, usePolled } from "../rest/poll";
import type { Allocation, Application, Ask, EventBatch, Resources, TaskGroup } from "../rest/types";
import { to, toQueue, useQuery } from "../routes";
import { Rejection } from "./cure";
import { MOST } from "./overview";
import { TimelineOf } from "./timeline";
import { Why } from "./why";

/** Most pages that are searched for an application; the service keeps as many by default. */
const PAGES = 10;

/** Most labels that are shown. */
const MOST_LABELS = 20;

/** Most rows of a long list. */
const MOST_ROWS = 200;

export function ApplicationView() {
  const [{ id = "" }] = useQuery();
  const of = base.value;
  const read = usePolled<Application>(of && `${of}/application/${encodeURIComponent(id)}`, 1.5);
  const isGone = read.error?.status === 404;
  if (isGone) return <Over id={id} />;
  return (
    <>
      <Trouble of={read} />
      {read.data && (
        <>
          <Summary of={read.data} />
          <TimelineOf of={read.data} />
          {!read.data.removedMessage && <Why application={id} names={namesOf(read.data.requests, read.data.allocations)} />}
          <Requests of={read.data} />
          <Gang of={read.data} />
          {!read.data.removedMessage && <Allocations of={read.data} />}
        </>
      )}
    </>
  );
}

/** Searches an application that no longer exists among those that ended or were rejected. */
function Over({ id }: { id: string }) {
  const of = base.value;
  const wanted = { search: id, order: "newest", limit: MOST };
  const ended = useAllPages<Application>(of && path(`${of}/applications/ended`, wanted), 5, PAGES);
  const rejected = useAllPages<Application>(of && path(`${of}/applications/rejected`, wanted), 5, PAGES);
  const found = [...(ended.data ?? []), ...(rejected.data ?? [])].filter((row) => row.applicationID === id);
  if (!ended.data || !rejected.data) return <Trouble of={ended} />;
  if (!found.length) {
    return <Past id={id} />;
  }
  return (
    <>
      {found.map((application) => (
        <Fragment key={application.finishedTime}>
          <Summary of={application} />
          <TimelineOf of={application} />
          <Gang of={application} />
        </Fragment>
      ))}
    </>
  );
}

/** Number of events that are searched for an application that is not kept; one reply has 10,000 at most. */
const LOOKED = 9_000;
const ROUND = 1000;
/** Most of its events that are shown. */
const LAST = 12;

/** The last events of an application that is neither live nor kept as ended. */
function Past({ id }: { id: string }) {
  const range = usePolled<EventBatch>("/ws/v1/events/batch?start=0&count=1", 10);
  // Rounded, so that the same range is read again for a while.
  const start = range.data && Math.max(range.data.LowestID, Math.floor((range.data.HighestID - LOOKED) / ROUND) * ROUND);
  const read = usePolled<EventBatch>(start === undefined ? null : path("/ws/v1/events/batch", { start, count: LOOKED + ROUND }), 10);
  const own = (read.data?.EventRecords ?? []).filter((one) => one.type === 2 && one.objectID === id);
  const last = own.slice(-LAST).reverse();
  const missing: Polled<unknown> = { data: undefined, next: null, error: new ReadError(404, "") };
  return (
    <>
      <Trouble of={missing} missing={`No application is called ${id}, among those that live and those that ended and are kept.`} />
      {last.length > 0 && (
        <Section title="Its last events" id="past" class="wide" note="It was there, and the service keeps it no longer." side={<a href={to("events", { search: id, from: String(start ?? 0) })}>Events</a>}>
          <ol class="log">
            {last.map((one, at) => (
              <li key={at}>
                <time title={moment(one.timestampNano ?? 0)}>{moment(one.timestampNano ?? 0)}</time> {whatHappened(one.eventChangeType, one.eventChangeDetail)} <span class="quiet">{one.referenceID} <Says text={one.message} /></span>
              </li>
            ))}
          </ol>
        </Section>
      )}
    </>
  );
}

function Summary({ of: it }: { of: Application }) {
  const { resourceUsage, preemptedResource, placeholderResource } = it.resourceHistory;
  const facts: [string, preact.ComponentChildren][] = [
    ["Queue", <a href={toQueue(it.queueName)}>{it.queueName}</a>],
    ["User", <Owner of={it} />],
    ["Submitted", <>{it.submissionTime ? moment(it.submissionTime) : "–"} (<Ago at={it.submissionTime} /> ago)</>],
    ["Uses", <Amounts of={it.usedResource} />],
    ["At most", <Amounts of={it.maxUsedResource} />],
    [it.removedMessage ? "Waited for" : "Pending", <Amounts of={it.pendingResource} />],
  ];
  if (it.removedMessage) facts.push(["Removed", <Says text={it.removedMessage} />]);
  const labels = Object.entries(it.applicationTags ?? {}).slice(0, MOST_LABELS);
  if (labels.length) facts.push(["Labels", labels.map(([name, value]) => <Fragment key={name}><Short name={`${name}=${value}`} /> </Fragment>)]);
  if (it.finishedTime) facts.push(["Ended", moment(it.finishedTime)]);
  if (it.rejectedMessage) facts.push(["Rejected", <Rejection of={it} />]);
  if (it.backoffDeadline) facts.push(["Backs off until", <Says text={it.backoffDeadline} />]);
  for (const [name, by] of [["Has used so far", resourceUsage], ["Lost by preemption", preemptedResource], ["Used by placeholders", placeholderResource]] as const) {
    const used = summed(by);
    if (used) facts.push([name, <Hours of={used} />]);
  }
  return (
    <Section title={<>Summary <Tag of={it.applicationState} /></>} id="summary" class="wide" side={<a href={to("decisions", { application: it.applicationID })}>Decisions</a>}>
      <Facts of={facts} />
      <ol class="states" aria-label="Its states">
        {(it.stateLog ?? []).map((entry) => (
          <li key={`${entry.time} ${entry.applicationState}`}>
            <Tag of={entry.applicationState} /> <time title={entry.time ? moment(entry.time) : ""}>{entry.time ? clock(entry.time) : ""}</time>
          </li>
        ))}
      </ol>
    </Section>
  );
}

/** The user, with a link, and its groups. */
function Owner({ of: { user, groups = [] } }: { of: Application }) {
  const others = groups.filter((group) => group && group !== user).map((group) => `, ${group}`);
  return <>{user && <a href={to("user", { name: user })}>{user}</a>}{others}</>;
}

/** Usage on all instance types together, amounts times seconds. */
function summed(by: Record<string, Resources> | undefined): Resources | undefined {
  if (!by) return undefined;
  const sum: Resources = {};
  for (const of of Object.values(by)) for (const [name, used] of Object.entries(of)) sum[name] = (sum[name] ?? 0) + used;
  return sum;
}

/** Requests that differ only in their keys; the scheduler tries one of them. */
interface Alike {
  asks: Ask[];
  first: Ask;
  /** Number of allocations that they want together. */
  wants: number;
}

function alike(asks: Ask[]): Alike[] {
  const kinds = new Map<string, Alike>();
  for (const ask of asks) {
    const { allocationKey: _, allocationTags: __, requestTime: ___, schedulingAttempted: ____, pendingCount = 1, allocationLog, ...what } = ask;
    const kind = JSON.stringify([what, (allocationLog ?? []).map((entry) => entry.message)]);
    const known = kinds.get(kind);
    if (known) {
      known.asks.push(ask);
      known.wants += pendingCount;
    } else {
      kinds.set(kind, { asks: [ask], first: ask, wants: pendingCount });
    }
  }
  return [...kinds.values()];
}

/** Requests of an application; equal ones share a row. */
function Requests({ of: it }: { of: Application }) {
  const rows = alike(it.requests ?? []);
  if (!rows.length) return null;
  const reserved = new Set(it.reservations);
  const columns: Column<Alike>[] = [
    { id: "key", head: "Key", cell: ({ asks, first }) => <><Keys of={asks} /> {asks.some((ask) => reserved.has(ask.allocationKey)) && <Tag of="reserves" title="A node is kept for it." />} <Marks of={first} /></> },
    { id: "group", head: "Group", cell: ({ first }) => first.taskGroupName && <Short name={first.taskGroupName} /> },
    { id: "count", head: "Wants", number: true, cell: ({ wants }) => <Count of={wants} /> },
    { id: "resource", head: "Each", number: true, cell: ({ first }) => <Amounts of={first.resource} /> },
    { id: "priority", head: "Priority", number: true, cell: ({ first }) => first.priority },
    { id: "since", head: "Since", number: true, cell: ({ first }) => <Ago at={first.requestTime} /> },
    { id: "log", head: "Found when tried", class: "text", cell: ({ first }) => <Log of={first} /> },
  ];
  return (
    <Section title="Requests" id="requests" class="wide" note="Pending requests; alike ones are one row.">
      <Table caption="Requests that wait" columns={columns} rows={rows.slice(0, MOST_ROWS)} keyOf={({ first }) => `${first.allocationKey} ${first.taskGroupName ?? ""}`} />
      {rows.length > MOST_ROWS && <p class="none">and {rows.length - MOST_ROWS} more</p>}
    </Section>
  );
}

function Keys({ of: asks }: { of: Ask[] }) {
  const [first, ...others] = asks.filter((ask) => ask.allocationKey);
  if (!first) return <span class="quiet">members without a request</span>;
  if (!others.length) return <Name of={first} />;
  const names = [first, ...others].slice(0, 50).map(nameOf);
  return <span title={names.join(", ")}><Name of={first} /><span class="quiet"> and {others.length} more</span></span>;
}

function Marks({ of: ask }: { of: Ask }) {
  return (
    <>
      {ask.placeholder && <Tag of="placeholder" title="It keeps a place for a member of a gang." />}
      {ask.originator && <Tag of="first" title="It started the application." />}
      {ask.triggeredPreemption && <Tag of="others leave" title="Others were told to leave for it." />}
      {ask.triggeredScaleUp && <Tag of="more machines" title="The resource manager was told that more machines would help." />}
      {ask.requiredNodeId && <Tag of={`only on ${ask.requiredNodeId}`} />}
    </>
  );
}

function Log({ of: ask }: { of: Ask }) {
  const [all, setAll] = useState(false);
  const entries = [...(ask.allocationLog ?? [])].reverse();
  if (!entries.length) return null;
  return (
    <ul class="log">
      {entries.slice(0, all ? undefined : 1).map((entry) => (
        <li key={entry.message}>
          <Says text={entry.message} /> <span class="quiet">{entry.count > 1 ? `${entry.count} times, last ` : ""}<Ago at={entry.lastOccurrence} /> ago</span>
        </li>
      ))}
      {entries.length > 1 && (
        <li>
          <button type="button" class="link" onClick={() => setAll(!all)}>
            {all ? "less" : `${entries.length - 1} more`}
          </button>
        </li>
      )}
    </ul>
  );
}

/** Members of the task groups: running ones, held places, and missing ones. */
function Gang({ of: it }: { of: Application }) {
  const groups = it.placeholderData ?? [];
  const byName = new Map<string, Allocation[]>();
  for (const allocation of it.allocations ?? []) {
    if (!allocation.taskGroupName) continue;
    byName.set(allocation.taskGroupName, [...(byName.get(allocation.taskGroupName) ?? []), allocation]);
  }
  for (const group of groups) if (group.taskGroupName && !byName.has(group.taskGroupName)) byName.set(group.taskGroupName, []);
  if (!byName.size) return null;
  interface Row {
    name: string;
    members: Allocation[];
    kept: TaskGroup | undefined;
    waiting: number;
  }
  const waiting = (name: string) => (it.requests ?? []).filter((ask) => ask.taskGroupName === name).reduce((sum, ask) => sum + (ask.pendingCount ?? 1), 0);
  const rows: Row[] = [...byName].map(([name, members]) => ({ name, members, kept: groups.find((group) => group.taskGroupName === name), waiting: waiting(name) }));
  const columns: Column<Row>[] = [
    { id: "group", head: "Group", cell: (row) => <Short name={row.name} /> },
    { id: "run", head: "Members that run", number: true, cell: (row) => <Count of={row.members.filter((member) => !member.placeholder).length} /> },
    { id: "held", head: "Places held", number: true, cell: (row) => <Count of={row.members.filter((member) => member.placeholder).length} /> },
    { id: "waiting", head: "Waiting", number: true, cell: (row) => <Count of={row.waiting} /> },
    { id: "placeholders", head: "Placeholders in all", number: true, cell: (row) => <Count of={row.kept?.count} /> },
    { id: "replaced", head: "replaced", number: true, cell: (row) => <Count of={row.kept?.replaced} /> },
    { id: "timedout", head: "timed out", number: true, cell: (row) => <Count of={row.kept?.timedout} /> },
    { id: "each", head: "Each", number: true, cell: (row) => <Amounts of={row.kept?.minResource ?? row.members[0]?.resource} /> },
  ];
  return (
    <Section title="Gang" id="gang" class="wide" note="Containers that are of use only together: places are kept for them until all can start.">
      <Table caption="Task groups" columns={columns} rows={rows} keyOf={(row) => row.name} />
    </Section>
  );
}

/** Columns of allocations; the caller adds the column of the place. */
export function allocationColumns(where: Column<Allocation>): Column<Allocation>[] {
  return [
    { id: "key", head: "Key", by: nameOf, cell: (row) => <><Name of={row} /> <AllocationMarks of={row} /></> },
    where,
    { id: "resource", head: "Takes", number: true, by: (row) => row.resource?.vcore ?? 0, cell: (row) => <Amounts of={row.resource} /> },
    { id: "priority", head: "Priority", number: true, by: (row) => Number(row.priority), cell: (row) => row.priority },
    { id: "since", head: "Running for", number: true, by: (row) => -(row.allocationTime ?? 0), cell: (row) => <Ago at={row.allocationTime} /> },
    { id: "delay", head: "Waited", number: true, by: (row) => row.allocationDelay ?? 0, cell: (row) => span(millis(row.allocationDelay ?? 0)) },
  ];
}

function AllocationMarks({ of: row }: { of: Allocation }) {
  return (
    <>
      {row.placeholder && <Tag of={row.internal ? "held place" : "placeholder"} />}
      {row.originator && <Tag of="first" title="It started the application." />}
      {row.taskGroupName && <Tag of={row.taskGroupName} title="Its task group." />}
      {row.preempted && <Tag of="has to leave" />}
      {row.preemptedFor && <span class="quiet"><Says text={row.preemptedFor} /></span>}
    </>
  );
}

function Allocations({ of: it }: { of: Application }) {
  const [query, change] = useQuery();
  const allocations = it.allocations ?? [];
  const columns = allocationColumns({
    id: "node",
    head: "Node",
    by: (row) => row.nodeId ?? "",
    cell: (row) => <NodeLink id={row.nodeId} />,
  });
  const { sort = "key" } = query;
  const rows = sorted(allocations, columns, sort, (row) => row.allocationKey);
  return (
    <Section title={<>Allocations <Count of={allocations.length} /></>} id="allocations" class="wide" note="The containers that it has.">
      {allocations.length ? (
        <Table caption="Allocations" columns={columns} rows={rows.slice(0, MOST_ROWS)} keyOf={(row) => row.uuid ?? row.allocationKey} sort={sort} onSort={(sort) => change({ sort })} />
      ) : (
        <p class="none">None.</p>
      )}
      {allocations.length > MOST_ROWS && <p class="none">and {allocations.length - MOST_ROWS} more</p>}
    </Section>
  );
}
