// View that asks what would happen with another queue configuration. Nothing is put in force.
import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { partitionsOf } from "../format/config";
import { cutQueue } from "../format/names";
import { span } from "../format/times";
import { HORIZON, after, difference, percent, question, ruleOf } from "../format/whatif";
import { Count } from "../parts/amount";
import { ApplicationLink, Called, NodeLink, QueueLink, Short } from "../parts/name";
import { ROWS } from "../parts/pager";
import { Says } from "../parts/says";
import { Section, Trouble } from "../parts/states";
import { type Column, Table } from "../parts/table";
import { ReadError, path, request } from "../rest/client";
import { partition } from "../rest/partitions";
import type { Polled } from "../rest/poll";
import type { WhatIfAnswer, WhatIfEvicted, WhatIfNames, WhatIfNever, WhatIfShare, WhatIfShares, WhatIfStart } from "../rest/types";
import { to } from "../routes";

/** Edited configurations by resource manager: they outlast a look at another view. */
const drafts = signal<Record<string, string>>({});

const UNREAD = { data: undefined, next: null, error: undefined };

const failed = <T,>(error: unknown): Polled<T> => ({ ...UNREAD, error: error instanceof ReadError ? error : new ReadError(0, String(error)) });

/** The queue configuration in force, read once. */
function useInForce(rm: string | undefined): Polled<string> {
  const [known, setKnown] = useState<Polled<string>>(UNREAD);
  useEffect(() => {
    if (rm === undefined) return;
    const over = new AbortController();
    const reading = async () => {
      const text = await (await request(path("/ws/v1/config", { rm }), over.signal)).text();
      return `${partitionsOf(text) ?? text}\n`;
    };
    reading().then(
      (data) => over.signal.aborted || setKnown({ ...UNREAD, data }),
      (error) => over.signal.aborted || setKnown(failed(error)),
    );
    return () => over.abort();
  }, [rm]);
  return known;
}

/** The last question, and a function to ask another; a question ends with the view. */
function useAnswer() {
  const [answer, setAnswer] = useState<Polled<WhatIfAnswer>>(UNREAD);
  const [isAsking, setAsking] = useState(false);
  const asked = useRef<AbortController | null>(null);
  useEffect(() => () => asked.current?.abort(), []);
  const stop = () => {
    asked.current?.abort();
    setAsking(false);
  };
  const ask = (body: string) => {
    asked.current?.abort();
    const over = new AbortController();
    asked.current = over;
    setAnswer(UNREAD);
    setAsking(true);
    const end = (found: Polled<WhatIfAnswer>) => {
      if (over.signal.aborted) return;
      setAnswer(found);
      setAsking(false);
    };
    request("/ws/v1/whatif", over.signal, body)
      .then((response) => response.json() as Promise<WhatIfAnswer>)
      .then((data) => end({ ...UNREAD, data }), (error) => end(failed(error)));
  };
  return { answer, isAsking, ask, stop };
}

export function WhatIf() {
  const rm = partition.value?.clusterId;
  const inForce = useInForce(rm);
  const { answer, isAsking, ask, stop } = useAnswer();
  const [horizon, setHorizon] = useState(HORIZON);
  const before = inForce.data ?? "";
  const draft = drafts.value[rm ?? ""];
  const text = draft ?? before;
  const write = (typed: string | undefined) => {
    const { [rm ?? ""]: _, ...others } = drafts.peek();
    drafts.value = typed === undefined ? others : { ...others, [rm ?? ""]: typed };
  };
  const submit = (event: Event) => {
    event.preventDefault();
    if (rm !== undefined) ask(question(rm, text, before, horizon));
  };
  return (
    <>
      <Section
        title="The question"
        id="question"
        class="wide"
        note="Change the configuration and ask. The service goes on from its present state twice in virtual time, without the change and with it; nothing is put in force."
      >
        <Trouble of={inForce} />
        <form onSubmit={submit}>
          <label>
            Queue configuration
            <textarea name="queues" rows={18} value={text} autoComplete="off" spellcheck={false} onInput={(event) => write(event.currentTarget.value)} />
          </label>
          <div class="filters">
            <label>
              Horizon
              <input type="text" name="horizon" value={horizon} placeholder={HORIZON} autoComplete="off" spellcheck={false} onInput={(event) => setHorizon(event.currentTarget.value)} />
            </label>
            <button type="submit" disabled={isAsking || rm === undefined || (inForce.data === undefined && !inForce.error)}>
              What would happen?
            </button>
            {isAsking && <button type="button" onClick={stop}>Stop</button>}
            {draft !== undefined && draft !== before && <button type="button" onClick={() => write(undefined)}>As in force</button>}
          </div>
        </form>
        <p class="none" role="status" id="asking">{isAsking && "The service plays it twice, without the change and with it. This may take a minute …"}</p>
        {answer.error && <Trouble of={answer} />}
      </Section>
      {answer.data && <Answer of={answer.data} />}
    </>
  );
}

function Answer({ of: { lines: [verdict, ...lines], isSafe, evicted, starts, never, isCut, queues, users } }: { of: WhatIfAnswer }) {
  return (
    <>
      <Section title="Is it safe?" id="safe" class="wide">
        <div role="status">
          <p class={isSafe ? "verdict" : "verdict trouble"}><b><Says text={verdict} /></b></p>
          <ul class="levels">{lines.map((line) => <li key={line}><Says text={line} /></li>)}</ul>
        </div>
        {isCut && <p class="none">Of a longer list the answer has the first ten thousand rows.</p>}
      </Section>
      <List title="Evicted" id="evicted" note="What is evicted with the change, and is not without it." none="Nothing." columns={EVICTED} rows={evicted} />
      <List title="Starts" id="starts" note="Requests whose last allocation starts at another time, the largest differences first." none="Everything starts when it would." columns={STARTS} rows={starts} />
      <List title="Never" id="never" note="Requests that still wait at the end, and why." none="Everything starts in time." columns={NEVER} rows={never} />
      <List title="Queues" id="queues" note={BOTH} none="None." columns={shareColumns("Queue", (name) => <QueueLink path={name} />)} rows={queues} />
      <List title="Users" id="users" note={BOTH} none="None." columns={shareColumns("User", (name) => <UserLink name={name} />)} rows={users} />
    </>
  );
}

/** A section with a table that begins with its first rows, and is made longer by a button. */
function List<T>({ title, id, note, none, columns, rows }: { title: string; id: string; note: string; none: string; columns: Column<T>[]; rows: T[] }) {
  const [most, setMost] = useState(ROWS);
  const numbered = rows.slice(0, most).map((row, at) => ({ row, at }));
  const cells = columns.map(({ cell, by: _, ...column }) => ({ ...column, cell: ({ row }: { row: T }) => cell(row) }));
  return (
    <Section title={<>{title} {rows.length > 0 && <Count of={rows.length} />}</>} label={title} id={id} class="wide" note={note}>
      {rows.length ? <Table caption={`${title}: ${note}`} columns={cells} rows={numbered} keyOf={({ at }) => String(at)} /> : <p class="none">{none}</p>}
      {rows.length > most && (
        <p class="further">
          <button type="button" onClick={() => setMost(most + ROWS)}>{Math.min(ROWS, rows.length - most)} more of {rows.length}</button>
        </p>
      )}
    </Section>
  );
}

/** Whether a row is of the partition on display, to which links lead. */
const isHere = ({ partition: name = "default" }: WhatIfNames) => name === partition.value?.name;

const UserLink = ({ name }: { name: string }) => <Short name={name} href={to("user", { name })} class="plain" />;

const NAMES: Column<WhatIfNames>[] = [
  {
    id: "application",
    head: "Application",
    cell: (row) => (isHere(row) ? <ApplicationLink id={row.application} /> : <><Short name={row.application} /> <span class="quiet">in <Short name={row.partition ?? "default"} /></span></>),
  },
  { id: "request", head: "Request", cell: (row) => <Called name={row.key} of={row.key} /> },
  { id: "queue", head: "Queue", cell: (row) => (isHere(row) ? <QueueLink path={row.queue} /> : <Short name={row.queue} cut={cutQueue} />) },
  { id: "user", head: "User", cell: (row) => <UserLink name={row.user} /> },
];

const EVICTED: Column<WhatIfEvicted>[] = [
  ...NAMES,
  { id: "node", head: "Node", cell: (row) => (isHere(row) ? <NodeLink id={row.node} /> : <Short name={row.node} />) },
  { id: "when", head: "When", number: true, cell: (row) => after(row.time) },
  { id: "ran", head: "Had run", number: true, cell: (row) => span(row.ran * 1000) },
  { id: "again", head: "Starts again", number: true, cell: (row) => (row.isAskedAnew ? after(row.again) : <span class="quiet">not asked for</span>) },
  {
    id: "why",
    head: "Why",
    class: "text",
    cell: (row) => <>{ruleOf(row)} {row.forQueue && <QueueLink path={row.forQueue} />} {row.why && <span class="quiet"><Says text={row.why} /></span>}</>,
  },
];

const STARTS: Column<WhatIfStart>[] = [
  ...NAMES,
  { id: "count", head: "Allocations", number: true, cell: (row) => <Count of={row.count} /> },
  { id: "without", head: "Without the change", number: true, cell: (row) => after(row.a) },
  { id: "with", head: "With it", number: true, cell: (row) => after(row.b) },
  { id: "difference", head: "Difference", number: true, cell: (row) => <b>{difference(row)}</b> },
];

const NEVER: Column<WhatIfNever>[] = [
  ...NAMES,
  { id: "count", head: "Allocations", number: true, cell: (row) => <Count of={row.count} /> },
  { id: "without", head: "Without the change", number: true, cell: (row) => after(row.a) },
  {
    id: "why",
    head: "Why",
    class: "text",
    cell: (row) => <><Says text={row.why} />{row.gang && <> <Says text={row.gang} /></>}{row.cure && <span class="quiet"> What would help: <Says text={row.cure} /></span>}</>,
  },
];

const BOTH = "Without the change, then with it. The share is the mean over the time ahead, of the scarcest resource.";

/** A figure without and with the change; the second one stands out if it differs. */
const pair = (figure: (share: WhatIfShare) => string) => ({ a, b }: WhatIfShares) => {
  const [before, behind] = [figure(a), figure(b)];
  return <><span class="quiet">{before}</span> → {before === behind ? behind : <b>{behind}</b>}</>;
};

const shareColumns = (head: string, link: (name: string) => preact.JSX.Element): Column<WhatIfShares>[] => [
  { id: "name", head, cell: (row) => link(row.name) },
  { id: "share", head: "Share", number: true, cell: pair(({ share }) => percent(share)) },
  { id: "started", head: "Starts", number: true, cell: pair(({ started }) => String(started)) },
  { id: "median", head: "Median wait", number: true, cell: pair(({ started, waitMedian }) => (started ? span(waitMedian * 1000) : "–")) },
  { id: "p95", head: "95 % wait at most", number: true, cell: pair(({ started, waitP95 }) => (started ? span(waitP95 * 1000) : "–")) },
  { id: "evicted", head: "Evicted", number: true, cell: pair(({ evicted }) => String(evicted)) },
];
