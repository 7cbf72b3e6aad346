// View of one node: its allocations and reservations, and decisions that could not use it.
import { Fragment } from "preact";
import { useState } from "preact/hooks";
import { ranked, title } from "../format/amounts";
import { aimed, word } from "../format/cures";
import { type PassedGroup, passedTogether } from "../format/decided";
import { Ago, Amounts, Count, Level, Things } from "../parts/amount";
import { Copy } from "../parts/copy";
import { UsageHistory } from "../parts/history";
import { ApplicationLink, Called, Name } from "../parts/name";
import { Says } from "../parts/says";
import { Facts, Section, Tag, Trouble } from "../parts/states";
import { type Column, Table, sorted } from "../parts/table";
import { OtherTypes } from "../parts/types";
import { base, partition, partitions } from "../rest/partitions";
import { usePolled } from "../rest/poll";
import type { Allocation, Decision, Node } from "../rest/types";
import { to, useQuery } from "../routes";
import { allocationColumns } from "./application";

const MOST_ROWS = 500;
/** Most decisions that are searched for requests that skipped this node. */
const LOOKED = 500;

export function NodeView() {
  const [{ id = "", sort }, change] = useQuery();
  const of = base.value;
  const read = usePolled<Node>(of && `${of}/node/${encodeURIComponent(id)}`, 1.5);
  const node = read.data;
  return (
    <>
      <Trouble of={read} missing={`No node is called ${id}: it was never here, or has left.`} />
      {node && (
        <>
          <Summary of={node} />
          <UsageHistory kind="node" name={id} />
          <Allocations of={node} sort={sort} onSort={(sort) => change({ sort })} />
          <Foreign of={node} />
          <Refused id={id} />
        </>
      )}
    </>
  );
}

function Summary({ of: node }: { of: Node }) {
  const [isAll, setAll] = useState(false);
  const { names, shown } = ranked({ capacity: node.capacity, used: node.allocated, pending: undefined });
  const attributes = Object.entries(node.attributes).sort(([a], [b]) => (a < b ? -1 : 1));
  return (
    <Section
      title={<>Summary <Tag of={node.schedulable ? "Open" : "Closed"} />{node.isReserved && <Tag of="reserved" />}</>}
      id="summary"
      class="wide"
      side={<span class="side"><Command of={node} /><a href={to("decisions", { node: node.nodeID })}>Decisions</a></span>}
    >
      <div class="loads">
        {(isAll ? names : names.slice(0, shown)).map((name) => (
          <div key={name}>
            <b>{title(name)}</b>
            <Level who={node.nodeID} name={name} used={(node.allocated?.[name] ?? 0) + (node.occupied?.[name] ?? 0)} limit={node.capacity?.[name] ?? 0} />
          </div>
        ))}
      </div>
      <OtherTypes names={names.slice(shown)} isAll={isAll} onToggle={() => setAll(!isAll)} />
      <Facts
        of={[
          ["Host", node.hostName ?? "–"],
          ["Rack", node.rackName ?? "–"],
          ["Free", <Amounts of={node.available} />],
          ["Used by others", <Amounts of={node.occupied} />],
          ["Kept for", <Reservers of={node} />],
          ["Refused", <span title="Predicates that said no, and starts that failed here, since the node was added."><Things of={node.refusals ?? 0} name="request" /></span>],
        ]}
      />
      <h3>Attributes</h3>
      <Facts of={attributes} />
    </Section>
  );
}

/** Button that copies the command that closes or opens the node. */
function Command({ of: { nodeID, schedulable } }: { of: Node }) {
  const verb = schedulable ? "cordon" : "uncordon";
  return <Copy text={aimed(`monoceros ${verb} ${word(nodeID)}`, partition.value, partitions.value)}> <code>monoceros {verb}</code></Copy>;
}

/** Reservations of the node. */
function Reservers({ of: { reservations = [], reservingPods: pods } }: { of: Node }) {
  if (!reservations.length) return <>nobody</>;
  return <>{reservations.map((key, at) => <Fragment key={key}>{at > 0 && ", "}<Called name={pods?.[key] ?? key} of={key} /></Fragment>)}</>;
}

function Allocations({ of: node, sort = "key", onSort }: { of: Node; sort: string | undefined; onSort: (sort: string) => void }) {
  const rows = node.allocations ?? [];
  const columns = allocationColumns({
    id: "application",
    head: "Application",
    by: (row) => row.applicationId ?? "",
    cell: (row) => <ApplicationLink id={row.applicationId} />,
  });
  const order = sorted(rows, columns, sort, (row) => `${row.applicationId} ${row.allocationKey}`);
  return (
    <Section title={<>Allocations <Count of={rows.length} /></>} id="allocations" class="wide" note="Containers of applications on this node.">
      {rows.length ? (
        <Table caption="Allocations on this node" columns={columns} rows={order.slice(0, MOST_ROWS)} keyOf={(row) => `${row.applicationId} ${row.uuid ?? row.allocationKey}`} sort={sort} onSort={onSort} />
      ) : (
        <p class="none">Nothing runs here.</p>
      )}
      {rows.length > MOST_ROWS && <p class="none">and {rows.length - MOST_ROWS} more</p>}
    </Section>
  );
}

/** Foreign allocations on the node. */
function Foreign({ of: node }: { of: Node }) {
  const rows = node.foreignAllocations ?? [];
  if (!rows.length) return null;
  const columns: Column<Allocation>[] = [
    { id: "key", head: "Key", cell: (row) => <Name of={row} /> },
    { id: "resource", head: "Takes", number: true, cell: (row) => <Amounts of={row.resource} /> },
    { id: "priority", head: "Priority", number: true, cell: (row) => row.priority },
    { id: "since", head: "Running for", number: true, cell: (row) => <Ago at={row.allocationTime} /> },
  ];
  return (
    <Section title={<>Of others <Count of={rows.length} /></>} id="foreign" class="wide" note="Pods and processes here that other schedulers placed.">
      <Table caption="What is of others" columns={columns} rows={rows.slice(0, MOST_ROWS)} keyOf={(row) => row.allocationKey} />
    </Section>
  );
}

/** Decisions that considered this node and could not use it. */
function Refused({ id }: { id: string }) {
  const of = base.value;
  const read = usePolled<Decision[]>(of && `${of}/decisions?limit=${LOOKED}`, 5);
  const rows = passedTogether(read.data ?? [], id);
  const columns: Column<PassedGroup>[] = [
    { id: "time", head: "When", number: true, cell: ({ first }) => <Ago at={first.time} /> },
    { id: "application", head: "Application", cell: ({ first }) => <ApplicationLink id={first.applicationId} /> },
    { id: "count", head: "Requests", number: true, cell: ({ all }) => <Count of={all.length} /> },
    { id: "key", head: "Request", cell: ({ first, all }) => <Requests first={first} all={all} /> },
    { id: "reason", head: "Why not here", class: "text", cell: ({ reason }) => <Says text={reason} /> },
  ];
  return (
    <Section title="Passed over" id="refused" class="wide" note="Requests that were placed elsewhere, for which this node is the example of those that would not do.">
      {read.error?.status === 404 ? (
        <p class="none">This service keeps no decisions.</p>
      ) : (
        <Trouble of={read} />
      )}
      {read.data && !rows.length && <p class="none">None among the last decisions.</p>}
      {rows.length > 0 && <Table caption="Who was passed over here" columns={columns} rows={rows.slice(0, MOST_ROWS)} keyOf={({ first, reason }) => `${first.id} ${reason}`} />}
    </Section>
  );
}

/** The first request of a group; the others open below it. */
function Requests({ first, all }: { first: Decision; all: Decision[] }) {
  const name = (one: Decision) => <Called name={one.pod ?? one.allocationKey} of={one.allocationKey} />;
  if (all.length === 1) return name(first);
  return (
    <details class="more">
      <summary>{name(first)} <span class="quiet">and {all.length - 1} more</span></summary>
      <ol class="log">
        {all.slice(1).map((one) => <li key={one.id}>{name(one)}</li>)}
      </ol>
    </details>
  );
}
