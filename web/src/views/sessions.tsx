// View of the resource managers with a session.
import { useMemo } from "preact/hooks";
import { Ago, Count } from "../parts/amount";
import { Short } from "../parts/name";
import { Section, Tag, Trouble } from "../parts/states";
import { type Column, Table } from "../parts/table";
import { CLUSTER, isInCluster } from "../rest/membership";
import { usePolled } from "../rest/poll";
import type { Membership, Session, Sessions as Answer } from "../rest/types";

const COLUMNS: Column<Session>[] = [
  { id: "rm", head: "Resource manager", cell: (row) => <><b>{row.rmId}</b> {row.version && <span class="quiet">{row.version}</span>}</> },
  { id: "session", head: "Session", cell: (row) => <code>{row.sessionId}</code> },
  {
    id: "state",
    head: "State",
    cell: (row) => (
      <>
        <Tag of={row.state} /> {row.pausedAt ? <span class="quiet">for <Ago at={row.pausedAt} /></span> : null}
        {row.lost && <p class="trouble">{row.lost}</p>}
      </>
    ),
  },
  { id: "registered", head: "Registered", number: true, cell: (row) => <Ago at={row.registeredAt} /> },
  { id: "group", head: "Policy group", cell: (row) => row.policyGroup },
  { id: "dialect", head: "Speaks", cell: (row) => row.dialect },
  { id: "outbox", head: "Waits to be sent", number: true, cell: (row) => <Count of={row.outboxItems} /> },
  { id: "streams", head: "Open streams", class: "text", cell: (row) => row.openStreams?.join(", ") || <span class="quiet">none</span> },
  { id: "build", head: "Build", class: "text", cell: (row) => Object.entries(row.buildInfo ?? {}).map(([name, value]) => `${name} ${value}`).join(", ") },
];

/** The member that serves the resource manager, as its claim says. */
const member = (of: Map<string, string>): Column<Session> => ({ id: "member", head: "Member", cell: (row) => of.get(row.rmId) && <Short name={of.get(row.rmId) ?? ""} /> });

export function Sessions() {
  const read = usePolled<Answer>("/ws/v1/sessions", 2);
  const cluster = usePolled<Membership>(isInCluster.value ? CLUSTER : null, 2);
  const members = useMemo(() => new Map(cluster.data?.claims?.map((claim) => [claim.rmId, claim.member ?? ""])), [cluster.data]);
  const columns = isInCluster.value ? COLUMNS.toSpliced(1, 0, member(members)) : COLUMNS;
  const rows = read.data?.sessions ?? [];
  return (
    <Section label="Sessions" id="sessions" class="wide" note={read.data && <>This run of the service calls itself <code>{read.data.schedulerId}</code>.</>}>
      <Trouble of={read} />
      {read.data && !rows.length && <p class="none">No resource manager has registered over gRPC.</p>}
      {rows.length > 0 && <Table caption="Sessions of resource managers" columns={columns} rows={rows} keyOf={(row) => row.rmId} />}
    </Section>
  );
}
