// View of the tree of queues, and of users and groups with their limits.
import { title } from "../format/amounts";
import { Count, Level } from "../parts/amount";
import { Filters, Search } from "../parts/filters";
import { QueueLink, Short } from "../parts/name";
import { useRows } from "../parts/pager";
import { Section, Tag, Trouble } from "../parts/states";
import { type Column, Table } from "../parts/table";
import { useTypes } from "../parts/types";
import { isOwner, isWithin } from "../format/mine";
import { mine, useMyApplications, useWaiting } from "../rest/mine";
import { base, partition } from "../rest/partitions";
import { usePolled } from "../rest/poll";
import type { Application, Group, Queue, Resources, Usage, User } from "../rest/types";
import { to, useQuery } from "../routes";
import { MOST } from "./overview";
import { Tree, openRows } from "./tree";

export function Queues() {
  const [query, change] = useQuery();
  const of = base.value;
  const queues = usePolled<Queue>(of && `${of}/queues`, 1.5);
  const search = query.search ?? "";
  const { names: types, button } = useTypes(queues.data);
  const own = useMyApplications();
  const waiting = useWaiting(3);
  return (
    <>
      <Section label="Queues" class="wide">
        <Filters label="Queues, users and groups">
          <Search name="search" label="Search" value={query.search} hint="queue, user or group" onChange={(search) => change({ search, page: undefined })} />
          {button}
        </Filters>
        <Trouble of={queues} />
        {queues.data && <Tree root={queues.data} types={types} own={own} waiting={waiting} search={search} />}
      </Section>
      <UsersAndGroups search={search} types={types} root={queues.data} own={own ?? []} />
    </>
  );
}

/** A user or group with its usage and limit on one queue. */
export interface Place {
  kind: "user" | "group";
  name: string;
  usage: Usage;
}

/** The rows of the queues with a limit; without any limit, the row of the total usage. */
export function places(usage: Usage): Usage[] {
  const isLimited = (place: Usage) => Boolean(place.maxResources ?? place.maxApplications);
  const below = (usage.children ?? []).flatMap(places).filter(isLimited);
  return isLimited(usage) || !below.length ? [usage, ...below] : below;
}

/** Usage and limits of users and groups. */
export function useUsage(seconds: number, of: (usage: Usage) => Usage[]) {
  const at = base.value;
  const users = usePolled<User[]>(at && `${at}/usage/users?limit=${MOST}`, seconds);
  const groups = usePolled<Group[]>(at && `${at}/usage/groups?limit=${MOST}`, seconds);
  const rows: Place[] = [
    ...(users.data ?? []).flatMap((user) => of(user.queues).map((usage): Place => ({ kind: "user", name: user.userName, usage }))),
    ...(groups.data ?? []).flatMap((group) => of(group.queues).map((usage): Place => ({ kind: "group", name: group.groupName, usage }))),
  ];
  return { users, groups, rows };
}

/** Columns of usage and limits. Without a limit, the bar is full at what the queue may use, `whole`. */
export function usageColumns(types: string[], whole: (queue: string) => Resources): Column<Place>[] {
  return [
    {
      id: "who",
      head: "Who",
      cell: ({ kind, name }) => (
        <>
          <Tag of={kind} />{" "}
          {kind === "user" ? <Short name={name} href={to("user", { name })} /> : name === "*" ? "all others together" : <Short name={name} />}
        </>
      ),
    },
    { id: "queue", head: "Queue", cell: ({ usage }) => <QueueLink path={usage.queuePath} /> },
    {
      id: "running",
      head: "Running",
      number: true,
      cell: ({ usage }) => (
        <>
          <Count of={usage.runningApplications?.length} />
          {usage.maxApplications ? <span class="quiet"> of {usage.maxApplications}</span> : null}
        </>
      ),
    },
    ...types.map((name): Column<Place> => ({
      id: name,
      head: title(name),
      class: "bars",
      cell: ({ name: who, usage }) => (
        <Level who={`${who} in ${usage.queuePath}`} name={name} used={usage.resourceUsage?.[name] ?? 0} whole={whole(usage.queuePath)[name] ?? 0} {...limited(usage.maxResources?.[name])} />
      ),
    })),
  ];
}

const limited = (limit: number | undefined) => (limit === undefined ? {} : { limit });

/** Whether the usage passes the filter of all views, which selects these applications. */
function isOwn({ kind, name, usage: { queuePath } }: Place, own: Application[]): boolean {
  const { queue } = mine.value;
  return isOwner(kind, name, mine.value, own) && (!queue || isWithin(queuePath, queue) || isWithin(queue, queuePath));
}

function UsersAndGroups({ search, types, root, own }: { search: string; types: string[]; root: Queue | undefined; own: Application[] }) {
  const { users, rows } = useUsage(3, places);
  const capacity = partition.value?.capacity.capacity ?? {};
  const limits = new Map(root ? openRows(root, () => false).map((row) => [row.queue.queuename, row.limits]) : []);
  const whole = (queue: string) => limits.get(queue) ?? capacity;
  const wanted = search.toLowerCase();
  const found = rows.filter((row) => (row.name.toLowerCase().includes(wanted) || row.usage.queuePath.includes(wanted)) && isOwn(row, own));
  const { shown, pager } = useRows(found);
  return (
    <Section title="Users and groups" id="usage" class="wide" note="What each may use of a queue and what is below it, by a limit of that queue, and what of that is used now.">
      <Trouble of={users} />
      {users.data && !found.length && <p class="none">None.</p>}
      {found.length > 0 && (
        <Table caption="Users and groups with what they use and their limits" columns={usageColumns(types, whole)} rows={shown} keyOf={(row) => `${row.kind} ${row.name} ${row.usage.queuePath}`} />
      )}
      {pager}
      {users.next !== null && <p class="none">of the first {MOST} users</p>}
    </Section>
  );
}
