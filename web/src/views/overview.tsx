// View of the whole partition.
import { useEffect, useRef, useState } from "preact/hooks";
import { Ago, Count, Level, Things } from "../parts/amount";
import { Chart, Spark } from "../parts/chart";
import { Heat } from "../parts/heat";
import { ApplicationLink, QueueLink, Short } from "../parts/name";
import { Says } from "../parts/says";
import { Section, Tag, Trouble } from "../parts/states";
import { Table } from "../parts/table";
import { useTypes } from "../parts/types";
import { short, title } from "../format/amounts";
import { ReadError, connection, request, tokenWanted } from "../rest/client";
import { useMyApplications, useMyNodes, useWaiting } from "../rest/mine";
import { base, partition, partitions } from "../rest/partitions";
import { type Polled, useAllPages, usePolled } from "../rest/poll";
import type { Application, Cluster, Health, HealthCheck, Node, Queue } from "../rest/types";
import { to } from "../routes";
import { Because } from "./because";
import { Tree } from "./tree";

/** Most rows of a list that are read for the overview. */
export const MOST = 1000;
const NODE_PAGES = 10;
const LONGEST = 6;

export function Overview() {
  const of = base.value;
  const queues = usePolled<Queue>(of && `${of}/queues`, 1);
  const nodes = useAllPages<Node>(of && `${of}/nodes?brief&limit=${MOST}`, 2, NODE_PAGES);
  const { names: types, button } = useTypes(queues.data);
  const own = useMyApplications();
  const waiting = useWaiting(2);
  const ownNodes = useMyNodes();
  const shown = nodes.data?.filter((node) => ownNodes?.has(node.nodeID) ?? true);
  return (
    <div class="overview">
      <Totals own={own} />
      <Section
        title="Queues"
        id="queues"
        class="wide"
        side={<span class="side">{button}<Legend /></span>}
        note="A full bar is all that the queue may use. Choose a queue to see who uses it."
      >
        <Trouble of={queues} />
        {queues.data && <Tree root={queues.data} types={types} own={own} waiting={waiting} />}
      </Section>
      <Waiting read={waiting} />
      <Section
        title="Nodes"
        id="nodes"
        note="One square per node: the fuller in its scarcest resource, the stronger. A framed one takes no new work."
        side={<a href={to("nodes")}>All nodes</a>}
      >
        <Loads types={types} />
        <Trouble of={nodes} />
        {shown && <Heat nodes={shown} total={ownNodes ? shown.length : (partition.value?.totalNodes ?? 0)} />}
      </Section>
      <History />
      <Soundness />
    </div>
  );
}

function Legend() {
  return (
    <span class="legend">
      <span>
        <i class="used" /> allocated
      </span>
      <span>
        <i class="wait" /> waiting
      </span>
      <span>
        <i class="promise" /> guaranteed
      </span>
    </span>
  );
}

/** Counts by state. */
function states(applications: Application[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { applicationState: state = "" } of applications) counts[state] = (counts[state] ?? 0) + 1;
  return counts;
}

/** Totals of the partition, or of the applications that pass the filter. */
function Totals({ own }: { own: Application[] | undefined }) {
  const shown = partition.value;
  const applications = own ? states(own) : (shown?.applications ?? {});
  const containers = own ? own.reduce((sum, one) => sum + (one.allocationCount ?? 0), 0) : (shown?.totalContainers ?? 0);
  const figures: [string, string, number, string][] = [
    ["nodes", "nodes", shown?.totalNodes ?? 0, to("nodes")],
    ["running", "running applications", applications.Running ?? 0, to("applications", { status: "running" })],
    ["accepted", "not started yet", (applications.New ?? 0) + (applications.Accepted ?? 0), to("applications", { status: "accepted" })],
    ["containers", "allocations now", containers, to("applications", { sort: "-allocations" })],
  ];
  return (
    <section id="totals" class="wide" aria-label="Totals">
      {figures.map(([id, name, count, href]) => (
        <a class="total" key={id} href={href} id={`n-${id}`}>
          <b>
            <Count of={count} />
          </b>
          <span>{name}</span>
        </a>
      ))}
      <Rate />
    </section>
  );
}

const WINDOW = 60;
const SECONDS = 2;

/** Allocations per second, from a counter of the metrics. */
function Rate() {
  const [rates, setRates] = useState<number[]>([]);
  const counted = useRef<{ at: number; total: number } | null>(null);
  const [isShown, setShown] = useState(true);
  useEffect(() => {
    const over = new AbortController();
    const look = async () => {
      if (document.hidden || tokenWanted.peek() !== null) {
        // A count over a pause of the page gives no rate.
        counted.current = null;
        return;
      }
      try {
        const text = await (await request("/ws/v1/metrics", over.signal)).text();
        const found = /^yunikorn_scheduler_container_allocation_attempt_total\{state="allocated"\} (\S+)/m.exec(text);
        const latest = { at: performance.now(), total: Number(found?.[1] ?? 0) };
        const before = counted.current;
        counted.current = latest;
        // A lower total means that the scheduler was restarted.
        if (!before || latest.total < before.total) return;
        const rate = ((latest.total - before.total) * 1000) / (latest.at - before.at);
        setRates((known) => [...known, rate].slice(-WINDOW));
      } catch (error) {
        counted.current = null;
        // Metrics cover all resource managers, so a caller with access to one only gets no rate.
        if (error instanceof ReadError && error.status === 403) setShown(false);
      }
    };
    void look();
    const timer = setInterval(() => void look(), SECONDS * 1000);
    return () => {
      over.abort();
      clearInterval(timer);
    };
  }, [connection.value === "token"]);
  if (!isShown) return null;
  const latest = rates.slice(-3);
  const mean = latest.reduce((sum, rate) => sum + rate, 0) / latest.length;
  return (
    <div class="total rate">
      <div>
        <b id="n-rate">{latest.length ? short(mean) : "–"}</b>
        <span>allocations per second</span>
      </div>
      <Spark label="Allocations per second over the last two minutes" values={rates} window={WINDOW} />
    </div>
  );
}

function Loads({ types }: { types: string[] }) {
  const { capacity, usedCapacity } = partition.value?.capacity ?? {};
  return (
    <div class="loads" id="loads">
      {types.map((name) => (
        <div key={name}>
          <b>{title(name)}</b>
          <Level who="All nodes" name={name} used={usedCapacity?.[name] ?? 0} limit={capacity?.[name] ?? 0} />
        </div>
      ))}
    </div>
  );
}

/** The applications that have waited longest, with their obstacle. */
function Waiting({ read }: { read: Polled<Application[]> }) {
  const all = read.data ?? [];
  // Applications of one user in one queue usually wait for the same reason.
  const oldest = new Map(all.toReversed().map((application) => [`${application.queueName} ${application.user}`, application]));
  const waiting = all.filter((application) => oldest.get(`${application.queueName} ${application.user}`) === application).slice(0, LONGEST);
  const rest = all.length - waiting.length;
  return (
    <Section
      title="Waiting"
      id="waiting"
      class="wide"
      note="Applications that ask for more than they have, and what is in the way: of each queue and user the one that came first."
      side={<a href={to("applications", { list: "waiting" })}>All that wait</a>}
    >
      <Trouble of={read} />
      {read.data && !waiting.length && <p class="none">Nobody waits at the moment.</p>}
      {waiting.length > 0 && (
        <Table
          caption="Applications that wait, the oldest first"
          keyOf={(row) => row.applicationID}
          rows={waiting}
          columns={[
            { id: "id", head: "Application", cell: (row) => <ApplicationLink id={row.applicationID} /> },
            { id: "queue", head: "Queue", cell: (row) => <QueueLink path={row.queueName} /> },
            { id: "user", head: "User", cell: (row) => row.user && <Short name={row.user} /> },
            { id: "waiting", head: "Pending", number: true, cell: (row) => <Count of={row.pendingCount} /> },
            { id: "since", head: "Since", number: true, cell: (row) => <Ago at={row.submissionTime} /> },
            { id: "why", head: "Why", class: "text", cell: (row) => <Because of={row} seconds={4} /> },
          ]}
        />
      )}
      {rest > 0 && <p class="none">and {short(rest)} more{read.next ? `, of the ${short(MOST)} that came first` : ""}</p>}
    </Section>
  );
}

interface Minute {
  timestamp: number;
  totalApplications?: string;
  totalContainers?: string;
}

function History() {
  const applications = usePolled<Minute[]>("/ws/v1/history/apps", 20);
  const containers = usePolled<Minute[]>("/ws/v1/history/containers", 20);
  const all = partitions.value;
  return (
    <Section title="History" id="history" note="What ran, minute by minute, over all partitions; the service keeps a day.">
      <Trouble of={applications} />
      <div class="charts">
        <Minutes name="running applications" now={all?.reduce((sum, one) => sum + (one.applications.Running ?? 0), 0)} minutes={applications.data} count={(minute) => minute.totalApplications} />
        <Minutes name="allocations" now={all?.reduce((sum, one) => sum + (one.totalContainers ?? 0), 0)} minutes={containers.data} count={(minute) => minute.totalContainers} />
      </div>
    </Section>
  );
}

interface MinutesProps {
  name: string;
  /** The present value; the minutes end with the last full one. */
  now: number | undefined;
  minutes: Minute[] | undefined;
  count: (minute: Minute) => string | undefined;
}

function Minutes({ name, now, minutes, count }: MinutesProps) {
  const shown = (minutes ?? []).map((minute) => ({ at: minute.timestamp / 1e9, count: Number(count(minute) ?? -1) }));
  const last = shown.at(-1);
  return (
    <figure data-minutes={shown.length} data-last={last?.count}>
      <figcaption>
        <b>{now === undefined ? "–" : <Count of={now} />}</b> {name} now
      </figcaption>
      {shown.length ? (
        <Chart
          name={name}
          label={`${name} in the last ${shown.length} minutes`}
          times={shown.map((minute) => minute.at)}
          values={shown.map((minute) => (minute.count < 0 ? null : minute.count))}
        />
      ) : (
        <p class="none">The first minute is noted a minute after the start.</p>
      )}
    </figure>
  );
}

/** Things that clients send and the service refuses, by the name of the check that counts them. */
const REFUSED: Record<string, string> = { "Scheduling errors": "message", "Failed nodes": "node" };

/** A finding with an outside cause. Those that count since the start say so. */
function Outside({ of: { Name: name, DiagnosisMessage: message } }: { of: HealthCheck }) {
  const count = /\d+/.exec(message)?.[0];
  const refused = REFUSED[name];
  if (!refused || !count) return <>From outside: <Says text={message} /></>;
  return <>Refused since the start: <Things of={Number(count)} name={refused} />. The log says which; the accounts are not affected.</>;
}

function Soundness() {
  const health = usePolled<Health>("/ws/v1/scheduler/healthcheck", 10);
  const clusters = usePolled<Cluster[]>("/ws/v1/clusters", 30);
  const checks = health.data?.HealthChecks ?? [];
  const failed = checks.filter((check) => !check.Succeeded && !check.FromOutside);
  const outside = checks.filter((check) => !check.Succeeded && check.FromOutside);
  const started = clusters.data?.[0]?.startTime;
  return (
    <Section title="Health" id="health" class="wide">
      <Trouble of={health} />
      {health.data && (
        <p class="health">
          <Tag of={health.data.Sound ? "Sound" : "Unsound"} />{" "}
          {failed.length === 0
            ? `${outside.length ? `The other ${checks.length - outside.length}` : `All ${checks.length}`} checks find what is counted and accounted in order`
            : `${failed.length} of ${checks.length} checks fail`}
          {started && (
            <>
              ; running for <Ago at={started} />
            </>
          )}
          .
        </p>
      )}
      {failed.map((check) => (
        <p class="trouble" key={check.Description}>
          {check.Name}: <Says text={check.DiagnosisMessage} />
        </p>
      ))}
      {outside.map((check) => (
        <p class="quiet" key={check.Description}>
          <Outside of={check} />
        </p>
      ))}
    </Section>
  );
}
