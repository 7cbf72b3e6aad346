// View of all nodes and their utilization.
import { short, title } from "../format/amounts";
import { useCallback, useMemo } from "preact/hooks";
import { Amounts, Bar, Count, Things } from "../parts/amount";
import { Choice, Filters, Search } from "../parts/filters";
import { Heat, fullest } from "../parts/heat";
import { NodeLink, Short } from "../parts/name";
import { useRows } from "../parts/pager";
import { Section, Tag, Trouble } from "../parts/states";
import { type Column, Table, natural, sorted } from "../parts/table";
import { useTypes } from "../parts/types";
import { useMyNodes } from "../rest/mine";
import { base } from "../rest/partitions";
import { useAllPages } from "../rest/poll";
import type { Node } from "../rest/types";
import { useQuery } from "../routes";
import { MOST } from "./overview";

const PAGES = 10;

const SHOWN: [string, string][] = [
  ["", "all"],
  ["closed", "closed"],
  ["reserved", "reserved"],
  ["full", "at 90 % or more"],
  ["idle", "idle"],
];

const isShown = (node: Node, which: string | undefined): boolean => {
  switch (which) {
    case "closed":
      return !node.schedulable;
    case "reserved":
      return node.isReserved;
    case "full":
      return fullest(node) >= 90;
    case "idle":
      return !fullest(node);
    default:
      return true;
  }
};

const used = (name: string): Column<Node> => ({
  id: name,
  head: title(name),
  class: "bars",
  number: true,
  by: (node) => node.utilized?.[name] ?? 0,
  cell: (node) => {
    const percent = node.utilized?.[name] ?? 0;
    return (
      <div class="percent">
        <Bar label={`${node.nodeID} ${title(name)}: ${percent} %`} used={percent} limit={100} />
        <data value={String(percent)}>{percent} %</data>
      </div>
    );
  },
});

const COLUMNS: Column<Node>[] = [
  { id: "id", head: "Node", by: (node) => node.nodeID, cell: (node) => <NodeLink id={node.nodeID} /> },
  {
    id: "status",
    head: "Status",
    by: (node) => Number(node.schedulable),
    cell: (node) => (
      <>
        <Tag of={node.schedulable ? "Open" : "Closed"} title={node.schedulable ? "" : "It takes no new work."} />
        {node.isReserved && <Tag of="reserved" title="It is kept for a request." />}
      </>
    ),
  },
  { id: "rack", head: "Rack", by: (node) => node.rackName ?? "", cell: (node) => node.rackName && <Short name={node.rackName} /> },
  { id: "allocations", head: "Allocations", number: true, by: (node) => node.allocationCount ?? 0, cell: (node) => <Count of={node.allocationCount} /> },
  { id: "free", head: "Free", number: true, by: (node) => node.available?.vcore ?? 0, cell: (node) => <Amounts of={node.available} /> },
];

const refusals: Column<Node> = { id: "refusals", head: "Refused", number: true, by: (node) => node.refusals ?? 0, cell: (node) => <Count of={node.refusals} /> };

const RACK = "rack";

/** Most values of an attribute by which squares are grouped. */
const MOST_VALUES = 60;

/** The rack, and attributes with few values. */
function groupings(nodes: Node[]): [string, string][] {
  const values = new Map<string, Set<string>>();
  for (const { attributes } of nodes) for (const [name, value] of Object.entries(attributes ?? {})) values.set(name, (values.get(name) ?? new Set()).add(value));
  const shared = [...values].filter(([, known]) => known.size <= MOST_VALUES).map(([name]) => name);
  return [["", "nothing"], [RACK, "rack"], ...shared.sort().map((name): [string, string] => [name, name])];
}

const valueOf = (node: Node, by: string) => (by === RACK ? node.rackName : node.attributes?.[by]) ?? "";

/** Squares of nodes: one map, or one for each rack or value of an attribute. Nodes without the selected type are left out. */
function Maps({ nodes, by, type }: { nodes: Node[]; by: string | undefined; type: string | undefined }) {
  const of = useCallback((node: Node) => (type ? (node.utilized?.[type] ?? 0) : fullest(node)), [type]);
  const shown = type ? nodes.filter((node) => node.capacity?.[type]) : nodes;
  const groups = new Map<string, Node[]>();
  for (const node of shown) {
    const value = by ? valueOf(node, by) : "";
    const group = groups.get(value);
    if (group) group.push(node);
    else groups.set(value, [node]);
  }
  const without = nodes.length - shown.length;
  return (
    <>
      {by ? (
        <div class="maps">
          {[...groups].sort(([a], [b]) => (natural(a) < natural(b) ? -1 : 1)).slice(0, MOST_VALUES).map(([value, some]) => (
            <figure key={value}>
              <figcaption><b>{value ? <Short name={value} /> : `no ${by}`}</b> <Things of={some.length} name="node" /></figcaption>
              <Heat nodes={some} total={some.length} of={of} />
            </figure>
          ))}
          {groups.size > MOST_VALUES && <p class="none">and {groups.size - MOST_VALUES} more</p>}
        </div>
      ) : (
        <Heat nodes={shown} total={shown.length} of={of} />
      )}
      {without > 0 && type && <p class="none"><Things of={without} name="node" /> without {title(type)} left out</p>}
    </>
  );
}

export function Nodes() {
  const [query, change] = useQuery();
  const of = base.value;
  const read = useAllPages<Node>(of && `${of}/nodes?brief&limit=${MOST}`, 2, PAGES);
  const own = useMyNodes();
  const all = useMemo(() => read.data ?? [], [read.data]);
  const choices = useMemo(() => groupings(all), [all]);
  const search = (query.search ?? "").toLowerCase();
  const matches = (node: Node) => [node.nodeID, node.hostName, node.rackName].some((text) => text?.toLowerCase().includes(search));
  const found = all.filter((node) => matches(node) && isShown(node, query.which) && (own?.has(node.nodeID) ?? true));
  const { names: types, button } = useTypes();
  const columns = [...COLUMNS, ...(all.some((node) => node.refusals) ? [refusals] : []), ...types.map(used)];
  const sort = query.sort ?? "id";
  const { shown, pager } = useRows(sorted(found, columns, sort, (node) => node.nodeID));
  return (
    <Section label="Nodes" class="wide">
      <Filters label="Nodes">
        <Search name="search" label="Search" value={query.search} hint="name, host or rack" onChange={(search) => change({ search, page: undefined })} />
        <Choice name="which" label="Show" value={query.which} of={SHOWN} onChange={(which) => change({ which, page: undefined })} />
        <Choice name="by" label="Squares by" value={query.by} of={choices} onChange={(by) => change({ by })} />
        <Choice name="type" label="Colour by" value={query.type} of={[["", "scarcest resource"], ...types.map((name): [string, string] => [name, title(name)])]} onChange={(type) => change({ type })} />
        {button}
      </Filters>
      <Trouble of={read} />
      {read.data && (
        <>
          <Maps nodes={found} by={query.by} type={query.type} />
          <Table caption="Nodes" columns={columns} rows={shown} keyOf={(node) => node.nodeID} sort={sort} onSort={(sort) => change({ sort, page: undefined })} />
          <div class="below">
            <p class="none" role="status" id="count">
              {found.length ? `${found.length} ${found.length === 1 ? "node" : "nodes"}` : "None."}
              {read.next !== null && ` of the first ${short(PAGES * MOST)}`}
            </p>
            {pager}
          </div>
        </>
      )}
    </Section>
  );
}
