// View of events: the live stream, or a range of them by number.
import { useEffect, useRef, useState } from "preact/hooks";
import { short } from "../format/amounts";
import { KINDS, eventsTogether, kindOf, namesOfEvent, saidTogether, whatHappened } from "../format/events";
import { cutName, cutQueue } from "../format/names";
import { clock, moment } from "../format/times";
import { Amounts, Hours } from "../parts/amount";
import { Choice, Field, Filters, Search } from "../parts/filters";
import { ApplicationLink, Called, Short } from "../parts/name";
import { useCards } from "../parts/cards";
import { Says } from "../parts/says";
import { Section, Tag, Trouble } from "../parts/states";
import { path, tokenWanted } from "../rest/client";
import { isWithin } from "../format/mine";
import { isFiltered, mine, useMyApplications } from "../rest/mine";
import { type Following, type Line, follow } from "../rest/follow";
import { usePolled } from "../rest/poll";
import type { EventBatch, EventRecord, Resources } from "../rest/types";
import { toApplication, toNode, toQueue, useQuery } from "../routes";

/** Most lines that are kept. */
const KEPT = 2000;
/** Most lines that are shown. */
const SHOWN = 300;
/** Most events of one range. */
const RANGE = 200;

export function Events() {
  const [query, change] = useQuery();
  const isLive = query.from === undefined;
  const mode = (
    <span class="modes" role="group" aria-label="Which events">
      <button type="button" aria-pressed={isLive} onClick={() => change({ from: undefined })}>
        As they come
      </button>
      <button type="button" aria-pressed={!isLive} onClick={() => change({ from: "0" })}>
        By number
      </button>
    </span>
  );
  return isLive ? <Live mode={mode} /> : <Range mode={mode} />;
}

/** The selected events. */
function useWanted() {
  const [{ search, type }, change] = useQuery();
  const wanted = search?.toLowerCase() ?? "";
  const { user, group, queue, label } = mine.value;
  const own = new Set([user, group, ...(useMyApplications() ?? []).map((one) => one.applicationID)].filter(Boolean));
  const isOwn = ({ type, objectID = "", referenceID = "" }: EventRecord) =>
    !isFiltered.value || own.has(objectID) || own.has(referenceID) || (type === 4 && !user && !group && !label && queue !== undefined && isWithin(objectID, queue));
  const isWanted = (record: EventRecord) =>
    (!type || record.type === Number(type)) &&
    isOwn(record) &&
    [record.objectID, record.referenceID, record.pod, record.message].some((text) => (text ?? "").toLowerCase().includes(wanted));
  const fields = (
    <>
      <Search name="search" label="Search" value={search} hint="object, pod, message" onChange={(search) => change({ search })} />
      <Choice
        name="type"
        label="Of"
        value={type}
        of={[["", "everything"], ...KINDS.map(({ name, number }): [string, string] => [String(number), name])]}
        onChange={(type) => change({ type })}
      />
    </>
  );
  return { isWanted, fields };
}

/** Unit of the amounts of an application's usage, in the message. */
const SECONDS = " resource-seconds";

const SAID: Record<Following, string> = { opening: "opening", live: "live", lost: "connecting again", off: "not available" };

function Live({ mode }: { mode: preact.JSX.Element }) {
  const { isWanted, fields } = useWanted();
  const [lines, setLines] = useState<Line[]>([]);
  const [state, setState] = useState<[Following, string | undefined]>(["opening", undefined]);
  const [isHeld, setHeld] = useState(false);
  const number = useRef(0);
  const wanted = tokenWanted.value;
  useEffect(() => {
    if (wanted !== null) return;
    const over = new AbortController();
    const take = (fresh: Omit<Line, "number">[]) =>
      setLines((before) => [...before, ...fresh.map((line) => ({ ...line, number: number.current++ }))].slice(-KEPT));
    void follow(take, (following, why) => setState([following, why]), over.signal);
    return () => over.abort();
  }, [wanted]);
  // A paused list does not change; new events are kept for later.
  const held = useRef<Line[]>([]);
  if (!isHeld) held.current = lines;
  const shown = held.current.filter((line) => line.remark !== undefined || (line.record && isWanted(line.record)));
  const [following, why] = state;
  return (
    <Section label="Events" id="events" class="wide">
      <Filters label="Events">
        {mode}
        {fields}
        <button type="button" aria-pressed={isHeld} onClick={() => setHeld(!isHeld)}>
          {isHeld ? "Go on" : "Hold"}
        </button>
        <span id="following" class={following} role="status">
          {SAID[following]}
        </span>
      </Filters>
      {why && <p class="none trouble">{why}</p>}
      <List
        rows={shown
          .slice(-SHOWN)
          .reverse()
          .map((line) => ({ key: String(line.number), ...line }))}
      />
      <p class="none">
        {shown.length > SHOWN ? `The latest ${SHOWN} of ${short(shown.length)} that match. ` : ""}
        {isHeld && lines.length !== held.current.length ? "More came meanwhile." : ""}
      </p>
    </Section>
  );
}

function Range({ mode }: { mode: preact.JSX.Element }) {
  const { isWanted, fields } = useWanted();
  const [{ from }, change] = useQuery();
  const start = Math.max(0, Number(from) || 0);
  const read = usePolled<EventBatch>(path("/ws/v1/events/batch", { start, count: RANGE }), 5);
  const { data } = read;
  const records = data?.EventRecords ?? [];
  const go = (next: number) => change({ from: String(Math.max(0, next)) });
  const rows = records.map((record, at) => ({ key: String(start + at), number: start + at, record })).filter(({ record }) => isWanted(record));
  return (
    <Section label="Events" id="events" class="wide">
      <Filters label="Events">
        {mode}
        {fields}
        <Field name="from" label="From number" type="number" value={String(start)} onChange={(from) => change({ from: from ?? "0" })} />
      </Filters>
      <Trouble of={read} />
      {data && (
        <p class="note" id="kept">
          The service keeps numbers <data value={String(data.LowestID)}>{data.LowestID}</data> to <data value={String(data.HighestID)}>{data.HighestID}</data>.
          {data.EventRecords === null && start < data.LowestID && " Those before are lost."}
        </p>
      )}
      <nav class="pager" aria-label="Ranges">
        <button type="button" onClick={() => go(data?.LowestID ?? 0)}>First</button>
        <button type="button" disabled={start <= (data?.LowestID ?? 0)} onClick={() => go(start - RANGE)}>Previous</button>
        <button type="button" disabled={records.length < RANGE} onClick={() => go(start + RANGE)}>Next</button>
        <button type="button" onClick={() => go((data?.HighestID ?? 0) - RANGE + 1)}>Last</button>
      </nav>
      <List rows={rows} isNumbered />
      {data && !rows.length && <p class="none">None.</p>}
    </Section>
  );
}

interface Row {
  key: string;
  number: number;
  record?: EventRecord;
  remark?: string;
}

/** Lines of events. With numbers each one has its row; without, those of one application and moment share a row that opens. */
function List({ rows, isNumbered = false }: { rows: Row[]; isNumbered?: boolean }) {
  const { isCards, box } = useCards(isNumbered ? 7 : 6);
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  const turn = (key: string) => {
    const next = new Set(open);
    if (!next.delete(key)) next.add(key);
    setOpen(next);
  };
  const groups = isNumbered ? rows.map((row) => [row]) : eventsTogether(rows);
  return (
    <div class="scroll" ref={box}>
      <table role="table" class={isCards ? "events cards" : "events"}>
        <caption>Events</caption>
        <thead>
          <tr>
            {isNumbered && <th scope="col" class="number">Number</th>}
            <th scope="col">Time</th>
            <th scope="col">Of</th>
            <th scope="col">What</th>
            <th scope="col">Happened</th>
            <th scope="col">With</th>
            <th scope="col" class="number">Amount</th>
          </tr>
        </thead>
        <tbody>
          {groups.flatMap((group) => {
            const lines = group.map((row) => <One key={row.key} of={row} isNumbered={isNumbered} isWithin={group.length > 1} />);
            if (lines.length === 1) return lines;
            // The earliest event, since later ones are added before it.
            const key = group.at(-1)?.key ?? "";
            const isOpen = open.has(key);
            return [<Together key={`${key} together`} of={group.flatMap(({ record }) => record ?? [])} isOpen={isOpen} onTurn={() => turn(key)} />, ...(isOpen ? lines : [])];
          })}
        </tbody>
      </table>
    </div>
  );
}

function One({ of: { key, number, record, remark }, isNumbered, isWithin }: { of: Row; isNumbered: boolean; isWithin: boolean }) {
  if (!record) {
    return (
      <tr role="row" class="remark">
        <td role="cell" colSpan={isNumbered ? 7 : 6}>{remark}</td>
      </tr>
    );
  }
  return (
    <tr role="row" data-key={key} class={isWithin ? "within" : undefined}>
      {isNumbered && <td role="cell" data-label="Number" class="number">{number}</td>}
      <td role="cell" class="time"><time title={moment(record.timestampNano ?? 0)}>{clock(record.timestampNano ?? 0)}</time></td>
      <td role="cell"><Tag of={kindOf(record.type)} /></td>
      <td role="cell"><Of record={record} /></td>
      <td role="cell" class="text">{whatHappened(record.eventChangeType, record.eventChangeDetail)} {record.message && <span class="quiet"><Says text={record.message.replace(SECONDS, "")} /></span>}</td>
      <td role="cell" data-label="With"><With record={record} /></td>
      <td role="cell" data-label="Amount" class="number">{record.message?.includes(SECONDS) ? <Hours of={amountsOf(record)} /> : <Amounts of={amountsOf(record)} />}</td>
    </tr>
  );
}

/** The row of several events of one application and moment. */
function Together({ of: records, isOpen, onTurn }: { of: EventRecord[]; isOpen: boolean; onTurn: () => void }) {
  const { application, said, references, amounts } = saidTogether(records);
  const time = records[0]?.timestampNano ?? 0;
  const [first] = references;
  return (
    <tr role="row" class="together">
      <td role="cell" class="time"><time title={moment(time)}>{clock(time)}</time></td>
      <td role="cell"><Tag of={kindOf(2)} /></td>
      <td role="cell"><ApplicationLink id={application} /></td>
      <td role="cell" class="text">
        {said.map(({ what, count }) => (count > 1 ? `${what} (${count})` : what)).join(", ")}{" "}
        <button type="button" class="link" aria-expanded={isOpen} onClick={onTurn}>{isOpen ? "less" : `${records.length} events`}</button>
      </td>
      <td role="cell" data-label="With">{first && <With record={first} />}{references.length > 1 && <span class="quiet"> and {references.length - 1} more</span>}</td>
      <td role="cell" data-label="Amount" class="number"><Amounts of={summed(amounts.map(amountsOf))} /></td>
    </tr>
  );
}

function summed(all: Resources[]): Resources {
  const sum: Resources = {};
  for (const one of all) for (const [name, quantity] of Object.entries(one)) sum[name] = (sum[name] ?? 0) + quantity;
  return sum;
}

/** The object that an event refers to: a queue in events of users. */
function With({ record }: { record: EventRecord }) {
  const { type, referenceID = "" } = record;
  if (type === 5 && referenceID) return <Short name={referenceID} cut={cutQueue} />;
  return <Called name={namesOfEvent(record).reference} of={referenceID} />;
}

function Of({ record }: { record: EventRecord }) {
  const { type, objectID = "", referenceID = "" } = record;
  const target = type === 2 ? toApplication(objectID) : type === 3 ? toNode(objectID) : type === 4 ? toQueue(objectID) : null;
  if (target) return <Short name={objectID} href={target} cut={type === 4 ? cutQueue : cutName} />;
  const { object } = namesOfEvent(record);
  return type === 1 && referenceID ? <Short name={object} title={object === objectID ? undefined : objectID} href={toApplication(referenceID)} /> : <Called name={object} of={objectID} />;
}

function amountsOf(record: EventRecord): Resources {
  const resources = Object.entries(record.resource?.resources ?? {});
  return Object.fromEntries(resources.map(([name, { value = 0 }]) => [name, value]));
}
