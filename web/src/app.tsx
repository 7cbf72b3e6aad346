// Frame of all views: navigation, partition, state of reading, and the dialog for a token.
import { useLocation } from "preact-iso";
import { useEffect, useRef } from "preact/hooks";
import { Jump } from "./parts/jump";
import { Panel, useBeside } from "./parts/panel";
import { Keys } from "./parts/keys";
import { Identity } from "./parts/identity";
import { MineFilter } from "./parts/mine";
import { Logo } from "./parts/logo";
import { connection, hasToken, askForToken, missingMembers, tokenWanted } from "./rest/client";
import { useIsInCluster } from "./rest/membership";
import { mineWanted } from "./rest/mine";
import { named, partition, partitions, wantedPartition } from "./rest/partitions";
import { usePolled } from "./rest/poll";
import type { Partition } from "./rest/types";
import { to, useQuery } from "./routes";
import { Footer } from "./parts/footer";
import { UNKNOWN, VIEWS, type View, listed } from "./views";

export function App() {
  const { path } = useLocation();
  const [query] = useQuery();
  // Set before the views are rendered, because links and paths depend on it.
  wantedPartition.value = query.partition ?? "";
  mineWanted.value = query.mine ?? "";
  const read = usePolled<Partition[]>("/ws/v1/partitions", 2);
  useEffect(() => {
    if (read.data) partitions.value = named(read.data);
  }, [read.data]);
  useIsInCluster();
  const view = VIEWS.find((known) => known.path === path) ?? UNKNOWN;
  return (
    <>
      <a class="skip" href="#main">
        Skip to the content
      </a>
      <Header view={view} />
      <Main view={view} />
      {tokenWanted.value === null && <Panel />}
      <Footer />
      <Keys />
      <Jump />
    </>
  );
}

function Header({ view }: { view: View }) {
  const here = view.nav ?? view.path;
  return (
    <header>
      <a class="home" href={to("overview")} aria-label="Monoceros: overview">
        <Logo />
        <span>Monoceros</span>
      </a>
      <nav aria-label="Views">
        {listed().map((known) => (
          <a key={known.path} href={to(known.id)} aria-current={known.path === here ? "page" : undefined}>
            {known.name}
          </a>
        ))}
      </nav>
      <div class="status">
        <button type="button" class="find" title="Go to an application, pod, queue, user, node or decision (Ctrl-K)" onClick={() => dispatchEvent(new CustomEvent("page:jump"))}>
          Go to …
        </button>
        <MineFilter />
        <PartitionSelect />
        <State />
        {hasToken() && (
          <button type="button" onClick={() => askForToken("Give another token.")}>
            Other token
          </button>
        )}
        <button type="button" class="help" aria-label="Keys" title="Keys (?)" onClick={() => dispatchEvent(new CustomEvent("page:keys"))}>
          ?
        </button>
      </div>
    </header>
  );
}

function PartitionSelect() {
  const [, change] = useQuery();
  const known = partitions.value ?? [];
  if (known.length < 2) return null;
  const choose = (path: string) => change({ partition: path === known[0]?.path ? undefined : path });
  return (
    <label>
      Partition
      <select id="partition" value={partition.value?.path ?? ""} onChange={(event) => choose(event.currentTarget.value)}>
        {known.map(({ path, name, clusterId }) => (
          <option key={path} value={path}>
            {known.filter((other) => other.name === name).length > 1 ? `${name} of ${clusterId}` : name}
          </option>
        ))}
      </select>
    </label>
  );
}

const SAID = { connecting: "connecting", live: "live", lost: "no answer", token: "needs a token" };

function State() {
  return (
    <span id="state" class={connection.value} role="status">
      {SAID[connection.value]}
    </span>
  );
}

function Main({ view }: { view: View }) {
  const main = useRef<HTMLElement>(null);
  const shown = useRef(view.path);
  const [query] = useQuery();
  const beside = useBeside("tbody a, summary a");
  const subject = view.subject?.(query);
  useEffect(() => {
    document.title = view.path === "/" ? "Monoceros" : `${subject ?? view.title} · Monoceros`;
  }, [view, subject]);
  useEffect(() => {
    // After a link is followed, reading continues at the beginning of the view: scroll position and focus move
    // there.
    if (shown.current === view.path) return;
    shown.current = view.path;
    scrollTo(0, 0);
    main.current?.focus({ preventScroll: true });
  }, [view]);
  const Shown = view.show;
  return (
    <main id="main" tabIndex={-1} ref={main} onClick={beside}>
      {tokenWanted.value === null ? (
        <>
          <div class="title">
            <h1>{subject ? <Subject kind={view.title} name={subject} /> : view.title}</h1>
            <p>{view.says}</p>
            <Missing />
          </div>
          {partitions.value?.length === 0 && view.needsPartition ? <Nobody /> : <Shown key={wantedPartition.value} />}
        </>
      ) : (
        <Identity why={tokenWanted.value} />
      )}
    </main>
  );
}

function Subject({ kind, name }: { kind: string; name: string }) {
  return (
    <>
      <small>{kind}</small> {name}
    </>
  );
}

/** Names the members without an answer, whose part of a list is missing. */
function Missing() {
  const names = missingMembers.value;
  if (!names.length) return null;
  return (
    <p class="trouble" role="status" id="missing">
      No answer from {names.join(", ")}: what {names.length === 1 ? "this member serves" : "these members serve"} is not listed.
    </p>
  );
}

function Nobody() {
  return (
    <section id="empty">
      <h2>Nothing to schedule for yet</h2>
      <p class="note">
        No resource manager has registered. One does so over gRPC, and then its nodes, queues and applications appear here;{" "}
        <code>monoceros serve --demo</code> brings one along.
      </p>
    </section>
  );
}
