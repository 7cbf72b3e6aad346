// Dialog that finds applications, pods, queues, users, nodes and decisions by a part of their name.
import { useLocation } from "preact-iso";
import { useEffect, useRef, useState } from "preact/hooks";
import { path, read } from "../rest/client";
import { base, partitions } from "../rest/partitions";
import type { Application, Decision, Group, Node, Queue, User } from "../rest/types";
import { to, toApplication, toNode, toQueue } from "../routes";
import { all } from "../views/tree";

/** Pause in typing after which a text is searched, in milliseconds. */
const REST = 150;
/** Most results of one kind. */
const MOST = 6;

interface Found {
  kind: string;
  name: string;
  /** Where it is or what it does. */
  note?: string | undefined;
  href: string;
}

/** Everything whose name has this text. */
async function find(text: string, signal: AbortSignal): Promise<Found[]> {
  const of = base.peek();
  if (!of) return [];
  // Parts that may not be read have no results.
  const list = <T,>(address: string) => read<T[]>(address, signal).then(({ data }) => data ?? [], () => []);
  const applications = (state: string, query: Record<string, string>) =>
    list<Application>(path(`${of}/applications/${state}`, { ...query, limit: MOST, search: text })).then((rows) =>
      rows.map((row): Found => ({ kind: state === "active" ? "application" : `${state} application`, name: row.applicationID, note: row.queueName, href: toApplication(row.applicationID) })),
    );
  const part = text.toLowerCase();
  // The service compares the names, since there may be more than a page reads.
  const named = { limit: MOST, search: text };
  const tree = read<Queue>(`${of}/queues`, signal).then(({ data }) => all(data), () => []);
  const number = /^#?(\d+)$/.exec(text)?.[1];
  const parts: Promise<Found[]>[] = [
    applications("active", { brief: "1" }),
    list<Decision>(path(`${of}/decisions`, { key: text, limit: 1 })).then((rows) =>
      rows.map((row) => ({ kind: row.pod ? "pod" : "request", name: row.pod ?? row.allocationKey, note: `of ${row.applicationId}`, href: toApplication(row.applicationId) })),
    ),
    tree.then((queues) => queues.filter((one) => one.queuename.toLowerCase().includes(part)).map((one) => ({ kind: "queue", name: one.queuename, href: toQueue(one.queuename) }))),
    list<User>(path(`${of}/usage/users`, named)).then((rows) =>
      rows.map((row) => ({ kind: "user", name: row.userName, href: to("user", { name: row.userName }) })),
    ),
    list<Group>(path(`${of}/usage/groups`, named)).then((rows) =>
      rows.map((row) => ({ kind: "group", name: row.groupName, href: to("queues", { search: row.groupName }) })),
    ),
    list<Node>(path(`${of}/nodes`, { ...named, brief: "1" })).then((rows) =>
      rows.map((row) => ({ kind: "node", name: row.nodeID, note: row.rackName, href: toNode(row.nodeID) })),
    ),
    applications("ended", { order: "newest" }),
    applications("rejected", { order: "newest" }),
  ];
  const found = (await Promise.all(parts)).flatMap((some) => some.slice(0, MOST));
  if (number === undefined) return found;
  // The decisions before the next number begin with this one.
  const decision = { kind: "decision", name: `number ${number}`, href: to("decisions", { after: String(Number(number) + 1) }) };
  return text.startsWith("#") ? [decision] : [...found, decision];
}

export function Jump() {
  const dialog = useRef<HTMLDialogElement>(null);
  const [text, setText] = useState("");
  const [found, setFound] = useState<Found[] | undefined>(undefined);
  const [at, setAt] = useState(0);
  const { route } = useLocation();
  // Before the partitions are read there is no path to search at.
  const isKnown = partitions.value !== undefined;
  useEffect(() => {
    const show = () => dialog.current?.open || dialog.current?.showModal();
    addEventListener("page:jump", show);
    return () => removeEventListener("page:jump", show);
  }, []);
  useEffect(() => {
    setFound(undefined);
    setAt(0);
    if (!text.trim() || !isKnown) return;
    const over = new AbortController();
    const timer = setTimeout(() => void find(text.trim(), over.signal).then((some) => !over.signal.aborted && setFound(some)), REST);
    return () => {
      clearTimeout(timer);
      over.abort();
    };
  }, [text, isKnown]);
  const go = (to: Found | undefined) => {
    if (!to) return;
    dialog.current?.close();
    route(to.href);
  };
  const pressed = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step === undefined || !found?.length) return;
    event.preventDefault();
    setAt((at + step + found.length) % found.length);
  };
  return (
    <dialog ref={dialog} id="jump" aria-label="Go to" onClose={() => setText("")}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          go(found?.[at]);
        }}
      >
        <input
          type="text"
          name="jump"
          value={text}
          aria-label="Go to an application, pod, queue, user, node or decision"
          aria-controls="found"
          placeholder="application, pod, queue, user, node, decision"
          autoComplete="off"
          spellcheck={false}
          onInput={(event) => setText(event.currentTarget.value)}
          onKeyDown={pressed}
        />
      </form>
      <ul id="found">
        {(found ?? []).map((one, place) => (
          <li key={one.kind + one.href} aria-selected={place === at}>
            <a href={one.href} onClick={() => dialog.current?.close()}>
              <span class="quiet">{one.kind}</span> {one.name} {one.note && <span class="quiet">{one.note}</span>}
            </a>
          </li>
        ))}
      </ul>
      {found?.length === 0 && <p class="none">Nothing has this in its name. A pod is found by its namespace and name, lab/job-0, once it was placed; before that, search its application.</p>}
    </dialog>
  );
}
