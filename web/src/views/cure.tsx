// What would help, with texts to copy.
import { useState } from "preact/hooks";
import { TAKE, commandOf, linesOf, nearest, ownerOf } from "../format/cures";
import { Copy } from "../parts/copy";
import { QueueLink } from "../parts/name";
import { Says } from "../parts/says";
import { base } from "../rest/partitions";
import { usePolled } from "../rest/poll";
import type { Change, Queue, Usage, User } from "../rest/types";
import { all } from "./tree";

const CONFIGURED = ["quota", "userLimit", "runningApplications"];

/** A text to copy, with a line of description. */
function Text({ about, text }: { about: preact.ComponentChildren; text: string }) {
  return (
    <div class="type">
      <span class="quiet">{about}</span> <Copy text={text} />
      <pre>{text}</pre>
    </div>
  );
}

/** The sentence of a cure. Texts to copy are read when they are asked for. */
export function Cure({ sentence, changes, application }: { sentence: string; changes: Change[]; application: string }) {
  const [isOpen, setOpen] = useState(false);
  const isConfigured = changes.some((change) => CONFIGURED.includes(change.kind));
  const others = [...new Set(changes.filter((change) => !CONFIGURED.includes(change.kind)).map((change) => commandOf(change, application)))];
  return (
    <div class="cure">
      <b>What would help</b> <Says text={sentence} />{" "}
      <button type="button" class="link" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        {isOpen ? "less" : "what to type"}
      </button>
      {isOpen && (
        <>
          {changes.filter((change) => CONFIGURED.includes(change.kind)).map((change) => <Configured key={change.kind + change.object} of={change} />)}
          {isConfigured && <Text about="With these commands" text={TAKE} />}
          {others.map((text) => <Text key={text} about="See it with" text={text} />)}
        </>
      )}
    </div>
  );
}

/** Lines of the queue configuration for a change, with the limit that is in force. */
function Configured({ of: change }: { of: Change }) {
  const at = base.value;
  const owner = ownerOf(change.object ?? "");
  const queue = usePolled<Queue>(at && !owner ? `${at}/queue/${encodeURIComponent(change.object ?? "")}` : null, 10);
  const usage = usePolled<User>(at && owner ? `${at}/usage/${owner.kind}/${encodeURIComponent(owner.name)}` : null, 10);
  const limit = owner && usage.data ? usageOf(usage.data.queues, owner.queue) : undefined;
  const now = owner ? { most: limit?.maxResources, applications: limit?.maxApplications } : { most: queue.data?.maxResource, applications: queue.data?.maxRunningApps };
  const lines = linesOf(change, now);
  if (!lines) return null;
  return <Text about={<>In the queue configuration, at <QueueLink path={lines.queue} /></>} text={lines.lines} />;
}

/** Usage of a queue in a tree of usage. */
function usageOf(usage: Usage, queue: string): Usage | undefined {
  if (usage.queuePath === queue) return usage;
  for (const child of usage.children ?? []) {
    const found = usageOf(child, queue);
    if (found) return found;
  }
  return undefined;
}

const MISSING = /queue `([^`]+)` does not exist/;

/** A reason of rejection. If it names a queue that is not there, the nearest one is shown. */
export function Rejection({ message }: { message: string }) {
  const missing = MISSING.exec(message)?.[1];
  const tree = usePolled<Queue>(missing ? base.value && `${base.value}/queues` : null, 30);
  const known = missing && tree.data ? nearest(missing, all(tree.data).map((queue) => queue.queuename)) : undefined;
  return (
    <>
      <Says text={message} />
      {known && <> Did you mean <QueueLink path={known} />?</>}
    </>
  );
}
