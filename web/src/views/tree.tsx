// The tree of queues with usage and pending amounts.
import { useState } from "preact/hooks";
import { narrowed, title } from "../format/amounts";
import { Count, Level } from "../parts/amount";
import { QueueLink, Short } from "../parts/name";
import { Tag } from "../parts/states";
import { type Column, Table, sorted } from "../parts/table";
import { countsBelow } from "../format/groups";
import { isQueueShown } from "../format/mine";
import { mine } from "../rest/mine";
import type { Polled } from "../rest/poll";
import type { Application, Queue, Resources } from "../rest/types";
import { toQueue, useQuery } from "../routes";

/** Number of queues from which those below the first level are folded. */
const FOLDED_FROM = 60;
/** Most rows that are shown. */
const MOST_ROWS = 500;

interface Row {
  queue: Queue;
  depth: number;
  limits: Resources;
  isOpen: boolean;
}

/** Number of queues in a subtree, the top included. */
export const all = (queue: Queue): Queue[] => [queue, ...(queue.children ?? []).flatMap(all)];

/** Order of the queues below one queue. */
type Order = (rows: Row[]) => Row[];

/** The unfolded rows, each with its effective maximum. */
export function openRows(queue: Queue, isFolded: (queue: Queue, depth: number) => boolean, order: Order = (rows) => rows): Row[] {
  const rowOf = (queue: Queue, depth: number, above: Resources): Row => ({ queue, depth, limits: narrowed(above, queue.maxResource), isOpen: !isFolded(queue, depth) });
  const open = (row: Row): Row[] => {
    const below = row.isOpen ? (row.queue.children ?? []).map((child) => rowOf(child, row.depth + 1, row.limits)) : [];
    return [row, ...order(below).flatMap(open)];
  };
  return open(rowOf(queue, 0, {}));
}

interface Props {
  root: Queue;
  types: string[];
  own: Application[] | undefined;
  /** The applications that wait, the oldest first. */
  waiting: Polled<Application[]>;
  search?: string;
}

export function Tree({ root, types, own, waiting, search = "" }: Props) {
  const [{ sort }, change] = useQuery();
  const [folded, setFolded] = useState<Record<string, boolean>>({});
  const isMany = all(root).length > FOLDED_FROM && !search;
  const wanted = new Set(all(root).filter((queue) => queue.queuename.includes(search.toLowerCase())).map((queue) => queue.queuename));
  const counts = countsBelow(waiting.data ?? []);
  const fold = ({ queue, isOpen }: Row) => setFolded({ ...folded, [queue.queuename]: isOpen });
  const columns: Column<Row>[] = [
    { id: "queue", head: "Queue", by: ({ queue }) => queue.queuename, cell: (row) => <Name row={row} fold={() => fold(row)} whole={search !== ""} /> },
    {
      id: "status",
      head: "Status",
      cell: ({ queue }) => <Tag of={queue.isManaged ? queue.status : `${queue.status}, dynamic`} />,
    },
    { id: "running", head: "Running", number: true, by: ({ queue }) => queue.runningApps ?? 0, cell: ({ queue }) => <Running queue={queue} /> },
    {
      id: "waiting",
      head: "Waiting",
      number: true,
      by: ({ queue }) => counts.get(queue.queuename) ?? 0,
      cell: ({ queue }) => (
        <>
          <Count of={counts.get(queue.queuename)} />
          {waiting.next !== null && <span class="quiet" title="There are more: only the applications that came first are counted.">+</span>}
        </>
      ),
    },
    ...types.map((name): Column<Row> => ({
      id: name,
      head: title(name),
      class: "bars",
      by: ({ queue }) => queue.allocatedResource?.[name] ?? 0,
      cell: ({ queue, limits }) => (
        <Level
          who={queue.queuename}
          name={name}
          used={queue.allocatedResource?.[name] ?? 0}
          wait={queue.pendingResource?.[name] ?? 0}
          promise={queue.guaranteedResource?.[name] ?? 0}
          limit={limits[name] ?? 0}
        />
      ),
    })),
  ];
  // Queues are sorted below the one that they are in; those that are found by a search, all together.
  const order = (rows: Row[]) => sorted(rows, columns, sort, ({ queue }) => queue.queuename);
  const rows = openRows(root, (queue, depth) => folded[queue.queuename] ?? (isMany && depth > 0), order);
  const isShown = ({ queue }: Row) => (!search || wanted.has(queue.queuename)) && isQueueShown(queue.queuename, mine.value, own ?? []);
  const found = search ? order(rows.filter(isShown)) : rows.filter(isShown);
  return (
    <>
      <Table
        caption="Queues with what they use and wait for"
        columns={columns}
        rows={found.slice(0, MOST_ROWS)}
        keyOf={({ queue }) => queue.queuename}
        sort={sort}
        onSort={(sort) => change({ sort })}
      />
      {found.length > MOST_ROWS && <p class="none">and {found.length - MOST_ROWS} more: fold some, or search</p>}
      {!found.length && <p class="none">{search ? "No queue has this in its name." : "None."}</p>}
    </>
  );
}

function Name({ row: { queue, depth, isOpen }, fold, whole }: { row: Row; fold: () => void; whole: boolean }) {
  const last = queue.queuename.split(".").at(-1) ?? "";
  const hasChildren = Boolean(queue.children?.length) && !whole;
  return (
    <span class="queue" style={{ paddingInlineStart: whole ? 0 : `${depth * 1.2}em` }}>
      {whole ? <QueueLink path={queue.queuename} /> : <Short name={last} title={last === queue.queuename ? undefined : queue.queuename} href={toQueue(queue.queuename)} />}
      {hasChildren && (
        <button type="button" class="fold" aria-expanded={isOpen} aria-label={`what is below ${queue.queuename}`} onClick={fold}>
          {isOpen ? "▾" : "▸"}
        </button>
      )}
    </span>
  );
}

/** Number of running applications and their maximum. */
export function Running({ queue }: { queue: Queue }) {
  return (
    <>
      <Count of={queue.runningApps} />
      {queue.maxRunningApps ? <span class="quiet"> of {queue.maxRunningApps}</span> : null}
    </>
  );
}
