// View of applications: active ones, ended ones, and rejected ones.
import { Ago, Amounts, Count } from "../parts/amount";
import { Choice, Field, Filters, Search } from "../parts/filters";
import { ApplicationLink, QueueLink, Short } from "../parts/name";
import { Further, useRows } from "../parts/pager";
import { Says } from "../parts/says";
import { Section, Tag, Trouble } from "../parts/states";
import { type Column, Table, sorted } from "../parts/table";
import { cutName, cutQueue } from "../format/names";
import { mostOfName } from "../parts/screen";
import { millis, span } from "../format/times";
import { wordsOf } from "../format/causes";
import { GROUPINGS, type Group, type Grouping, type Part, causeOf, grouped, summary } from "../format/groups";
import { isMine } from "../format/mine";
import { path } from "../rest/client";
import { mine } from "../rest/mine";
import { base } from "../rest/partitions";
import { usePolled } from "../rest/poll";
import type { Application, Queue } from "../rest/types";
import { useQuery } from "../routes";
import { Because } from "./because";
import { Rejection } from "./cure";
import { MOST } from "./overview";
import { all } from "./tree";

const STATES = ["new", "accepted", "running", "completing", "failing", "resuming"];

const LISTS: [string, string][] = [
  ["active", "live"],
  ["waiting", "waiting, oldest first"],
  ["ended", "ended"],
  ["rejected", "rejected"],
];

const id: Column<Application> = {
  id: "id",
  head: "Application",
  by: (row) => row.applicationID,
  cell: (row) => (
    <>
      <ApplicationLink id={row.applicationID} />
      {row.placeholderData?.length ? <Tag of="gang" title={row.placeholderData.map((group) => `${group.taskGroupName}: ${group.count ?? 0} places`).join(", ")} /> : null}
      {row.hasReserved ? <Tag of="reserves" title="A node is kept for one of its requests." /> : null}
    </>
  ),
};

const state: Column<Application> = {
  id: "state",
  head: "State",
  by: (row) => row.applicationState ?? "",
  cell: (row) => <Tag of={row.applicationState} />,
};

const queue: Column<Application> = {
  id: "queue",
  head: "Queue",
  by: (row) => row.queueName,
  cell: (row) => <QueueLink path={row.queueName} />,
};

const user: Column<Application> = { id: "user", head: "User", by: (row) => row.user ?? "", cell: (row) => row.user && <Short name={row.user} /> };

const submitted: Column<Application> = {
  id: "submitted",
  head: "Submitted",
  number: true,
  by: (row) => row.submissionTime ?? 0,
  cell: (row) => <Ago at={row.submissionTime} />,
};

/** Usage of an application. Places that are held for members of its gang are no usage. */
export function Uses({ of: { usedResource: used, allocationCount: count } }: { of: Application }) {
  const isNone = !Object.values(used ?? {}).some(Boolean);
  return isNone && count ? <span class="quiet" title="Its allocations are places that are held for members of its gang.">held places only</span> : <Amounts of={used} />;
}

const live: Column<Application>[] = [
  id,
  state,
  queue,
  user,
  submitted,
  { id: "allocations", head: "Allocations", number: true, by: (row) => row.allocationCount ?? 0, cell: (row) => <Count of={row.allocationCount} /> },
  { id: "waiting", head: "Pending", number: true, by: (row) => row.pendingCount ?? 0, cell: (row) => <Count of={row.pendingCount} /> },
  { id: "uses", head: "Uses", by: (row) => row.usedResource?.vcore ?? 0, number: true, cell: (row) => <Uses of={row} /> },
  { id: "why", head: "Waits because", class: "text", by: (row) => wordsOf(causeOf(row)), cell: (row) => <Because of={row} seconds={10} /> },
];

const ended: Column<Application>[] = [
  id,
  state,
  queue,
  user,
  { id: "finished", head: "Ended", number: true, by: (row) => row.finishedTime ?? 0, cell: (row) => <Ago at={row.finishedTime} /> },
  { id: "lived", head: "Lived for", number: true, by: lived, cell: (row) => span(millis(lived(row))) },
  { id: "uses", head: "Used at most", number: true, by: (row) => row.maxUsedResource?.vcore ?? 0, cell: (row) => <Amounts of={row.maxUsedResource} /> },
  { id: "why", head: "How", class: "text", by: (row) => row.removedMessage ?? "", cell: (row) => <Says text={row.removedMessage} /> },
];

const rejected: Column<Application>[] = [
  id,
  queue,
  user,
  { id: "finished", head: "Rejected", number: true, by: (row) => row.finishedTime ?? 0, cell: (row) => <Ago at={row.finishedTime} /> },
  { id: "why", head: "Why", class: "text", by: (row) => row.rejectedMessage ?? "", cell: (row) => <Rejection of={row} /> },
];

function lived(row: Application): number {
  return row.finishedTime && row.submissionTime ? row.finishedTime - row.submissionTime : 0;
}

const BY: [string, string][] = [
  ["", "nothing"],
  ["queue", "queue"],
  ["user", "user"],
  ["state", "state"],
  ["cause", "cause"],
];

interface GroupsProps {
  rows: Application[];
  part: Part | undefined;
  by: Grouping;
  sort: string | undefined;
  change: (changed: Record<string, string | undefined>) => void;
}

/** Groups of applications; one leads to its applications. */
function Groups({ rows, part, by, sort = "-applications", change }: GroupsProps) {
  const filter = by === "state" ? "status" : by;
  const open = (name: string) => change({ by: undefined, sort: undefined, [filter]: by === "state" ? name.toLowerCase() : name });
  const columns: Column<Group>[] = [
    {
      id: "group",
      head: by === "cause" ? "Waits because" : by[0]?.toUpperCase() + by.slice(1),
      by: (group) => (by === "cause" ? wordsOf(group.name) : group.name),
      cell: ({ name }) => (name ? <button type="button" class="open" title={name} onClick={() => open(name)}>{by === "queue" ? cutQueue(name, mostOfName.value) : by === "cause" ? wordsOf(name) : cutName(name, mostOfName.value)}</button> : <span class="quiet">no {by}</span>),
    },
    { id: "applications", head: "Applications", number: true, by: (group) => group.applications, cell: (group) => <Count of={group.applications} /> },
    { id: "allocations", head: "Allocations", number: true, by: (group) => group.allocations, cell: (group) => <Count of={group.allocations} /> },
    { id: "waiting", head: "Pending", number: true, by: (group) => group.pending, cell: (group) => <Count of={group.pending} /> },
    { id: "uses", head: "Uses", number: true, by: (group) => group.used.vcore ?? 0, cell: (group) => <Amounts of={group.used} /> },
  ];
  const groups = sorted(grouped(rows, by), columns, sort, (group) => group.name);
  return (
    <>
      <Table caption={`Applications by ${by}`} columns={columns} rows={groups} keyOf={(group) => group.name} sort={sort} onSort={(sort) => change({ sort })} />
      <p class="none" role="status" id="count">{summary(groups, part)}</p>
    </>
  );
}

export function Applications() {
  const [query, change] = useQuery();
  const list = LISTS.some(([name]) => name === query.list) ? (query.list ?? "active") : "active";
  const isWaiting = list === "waiting";
  const isLive = list === "active" || isWaiting;
  const { search = "", status, queue: below, user: of, cause, after } = query;
  // There may be very many, so the server filters them. Of ended applications the last ones are requested.
  const asked = isLive ? { brief: "1", status, order: isWaiting ? "waiting" : undefined } : { order: "newest" };
  const address = base.value && path(`${base.value}/applications/${isWaiting ? "active" : list}`, { ...asked, limit: MOST, after, search, queue: below ?? mine.value.queue, user: of ?? mine.value.user, label: mine.value.label });
  const read = usePolled<Application[]>(address, isLive ? 2 : 5);
  const tree = usePolled<Queue>(base.value && `${base.value}/queues`, 15);
  const columns = isLive ? live : list === "ended" ? ended : rejected;
  const by = isLive ? BY.map(([name]) => name).find((name): name is Grouping => name === query.by && name in GROUPINGS) : undefined;
  const sort = query.sort ?? (isWaiting ? "submitted" : isLive ? "id" : "-finished");
  const rows = (read.data ?? []).filter((row) => isMine({ group: mine.value.group }, row) && (cause === undefined || causeOf(row) === cause));
  const part = read.data && (read.next !== null || after) ? { read: read.data.length, isFirst: !after } : undefined;
  const { shown, pager } = useRows(sorted(rows, columns, sort, (row) => row.applicationID));
  const narrow = (changed: Record<string, string | undefined>) => change({ page: undefined, after: undefined, ...changed });
  return (
    <Section label="Applications" class="wide">
      <Filters label="Applications">
        <Search name="search" label="Search" value={query.search} hint="part of an id" onChange={(search) => narrow({ search })} />
        <Choice name="list" label="List" value={list} of={LISTS} onChange={(list) => narrow({ list, sort: undefined, status: undefined })} />
        {isLive && (
          <Choice
            name="status"
            label="State"
            value={status}
            of={[["", "any"], ...STATES.map((name): [string, string] => [name, name])]}
            onChange={(status) => narrow({ status })}
          />
        )}
        <Choice
          name="queue"
          label="Queue"
          value={below}
          of={[["", "any"], ...(tree.data ? all(tree.data) : []).slice(1, MOST).map((one): [string, string] => [one.queuename, one.queuename])]}
          onChange={(queue) => narrow({ queue })}
        />
        <Field name="user" label="User" value={of} onChange={(user) => narrow({ user })} />
        {cause !== undefined && <Choice name="cause" label="Waits because" value={cause} of={[["", "anything"], [cause, wordsOf(cause)]]} onChange={(cause) => narrow({ cause })} />}
        {isLive && <Choice name="by" label="Group by" value={by} of={BY} onChange={(by) => narrow({ by, sort: undefined })} />}
      </Filters>
      <Trouble of={read} />
      {read.data && by && <Groups rows={rows} part={part} by={by} sort={query.sort} change={narrow} />}
      {read.data && by && <Further view="applications" next={read.next} count={MOST} />}
      {read.data && !by && (
        <>
          <Table caption={`Applications: ${list}`} columns={columns} rows={shown} keyOf={(row) => `${row.applicationID} ${row.finishedTime ?? ""}`} sort={sort} onSort={(sort) => change({ sort, page: undefined })} />
          <div class="below">
            <p class="none" role="status" id="count">
              {rows.length === 0 ? "None." : `${rows.length} ${rows.length === 1 ? "application" : "applications"}`}
              {part && (isWaiting && !query.sort ? ", a part of the list. Search, or choose a queue, to see less." : ", a part of the list: the order is that of this part. Search, or choose a queue, to see less.")}
            </p>
            {pager}
          </div>
          <Further view="applications" next={read.next} count={MOST} />
        </>
      )}
    </Section>
  );
}
