// View of the members of a cluster, and of the member that serves each resource manager.
import { span } from "../format/times";
import { behind, firstNames, inOrder, meaningOf, obstacle, served } from "../format/members";
import { Ago, Count, Things } from "../parts/amount";
import { Filters, Search } from "../parts/filters";
import { Short } from "../parts/name";
import { useRows } from "../parts/pager";
import { Section, Tag, Trouble } from "../parts/states";
import { type Column, Table } from "../parts/table";
import { CLUSTER } from "../rest/membership";
import { usePolled } from "../rest/poll";
import type { Claim, Member, Membership } from "../rest/types";
import { useQuery } from "../routes";

const columns = (own: string | undefined, rms: Map<string, string[]>): Column<Member>[] => [
  { id: "member", head: "Member", cell: (row) => <><b><Short name={row.id} /></b> {row.id === own && <span class="quiet">answers here</span>}</> },
  { id: "state", head: "State", cell: (row) => <Tag of={row.state} title={meaningOf(row.state)} /> },
  { id: "rms", head: "Resource managers", number: true, cell: (row) => <Count of={row.rms} /> },
  { id: "load", head: "Load", number: true, cell: (row) => <Count of={row.load} /> },
  {
    id: "beat",
    head: "Last beat",
    number: true,
    cell: (row) => (row.beatAgoMs === undefined ? <span class="quiet">–</span> : <data value={String(row.beatAgoMs)}>{span(row.beatAgoMs)}</data>),
  },
  { id: "version", head: "Version", cell: (row) => row.version },
  {
    id: "configurations",
    head: "Configurations",
    cell: (row) => (row.notInForce ? <b>{row.notInForce} not in force</b> : <span class="quiet">in force</span>),
  },
  { id: "grpc", head: "gRPC", cell: (row) => row.grpc && <Short name={row.grpc} /> },
  { id: "rest", head: "REST", cell: (row) => row.rest && <Short name={row.rest} /> },
  { id: "serves", head: "Serves", class: "text", cell: (row) => firstNames(rms.get(row.id) ?? []) || <span class="quiet">none</span> },
];

const CLAIMS: Column<Claim>[] = [
  { id: "rm", head: "Resource manager", cell: (row) => <b><Short name={row.rmId} /></b> },
  { id: "member", head: "Member", cell: (row) => (row.member ? <Short name={row.member} /> : <span class="quiet">none</span>) },
  { id: "session", head: "Session", cell: (row) => <code>{row.sessionId}</code> },
  { id: "since", head: "Registered", number: true, cell: (row) => <Ago at={row.sinceMs * 1e6} /> },
  { id: "wanted", head: "Wanted by", cell: (row) => row.wantedBy && <Short name={row.wantedBy} /> },
];

export function Members() {
  const read = usePolled<Membership>(CLUSTER, 2);
  const cluster = read.data;
  if (cluster && cluster.name === undefined) {
    return <Section label="Members" class="wide"><p class="none">This service is a single process, and no member of a cluster.</p></Section>;
  }
  const members = inOrder(cluster?.members ?? []);
  const why = cluster && obstacle(cluster);
  return (
    <>
      <Section label="Members" id="members" class="wide" note={cluster && <About of={cluster} />}>
        <Trouble of={read} missing="This service is no member of a cluster." />
        {why && <p class="none trouble" role="status">{why}</p>}
        {cluster?.notInForce?.map((group) => <p key={group.policyGroup} class="none trouble" role="status">{behind(cluster.member, group)}</p>)}
        {members.length > 0 && (
          <Table caption="Members of the cluster" columns={columns(cluster?.member, served(cluster?.claims ?? []))} rows={members} keyOf={(row) => row.id} />
        )}
      </Section>
      {cluster && <Claims of={cluster.claims ?? []} />}
    </>
  );
}

function About({ of: { name, arbiter, leaseMs, readAgoMs } }: { of: Membership }) {
  return (
    <>
      The cluster <code>{name}</code> has its claims in {arbiter === "kubernetes" ? "ConfigMaps" : arbiter}. A member that is silent for {span(leaseMs ?? 0)} may lose its
      resource managers. {readAgoMs === undefined ? "Nothing was read yet." : `Read ${span(readAgoMs)} ago.`}
    </>
  );
}

function Claims({ of: claims }: { of: Claim[] }) {
  const [query, change] = useQuery();
  const search = (query.search ?? "").toLowerCase();
  const found = claims.filter(({ rmId, member }) => [rmId, member].some((text) => text?.toLowerCase().includes(search)));
  const { shown, pager } = useRows(found);
  return (
    <Section title="Where resource managers are" id="claims" class="wide" note="Each is served by one member, and by another if that one is lost or hands it over.">
      <Filters label="Resource managers">
        <Search name="search" label="Search" value={query.search} hint="name or member" onChange={(search) => change({ search, page: undefined })} />
      </Filters>
      {shown.length > 0 && <Table caption="Resource managers and their members" columns={CLAIMS} rows={shown} keyOf={(row) => row.rmId} />}
      <div class="below">
        <p class="none" role="status" id="count">
          {found.length ? <Things of={found.length} name="resource manager" /> : claims.length ? "None." : "No resource manager has registered."}
        </p>
        {pager}
      </div>
    </Section>
  );
}
