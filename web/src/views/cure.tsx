// What would help, with texts to copy.
import { useState } from "preact/hooks";
import { type Edit, difference, edited } from "../format/config";
import { aimed, commandOf, editOf, linesOf, ownerOf, takes } from "../format/cures";
import { rejection } from "../format/sentences";
import { Copy } from "../parts/copy";
import { QueueLink } from "../parts/name";
import { Says } from "../parts/says";
import { ReadError, path, request } from "../rest/client";
import { base, partition, partitions } from "../rest/partitions";
import { usePolled } from "../rest/poll";
import type { Application, Change, Queue, Usage, User } from "../rest/types";

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
  const [shown, all] = [partition.value, partitions.value];
  const commands = changes.filter((change) => !CONFIGURED.includes(change.kind)).map((change) => commandOf(change, application));
  const others = new Map(commands.map(({ text, isCure }): [string, boolean] => [aimed(text, shown, all), isCure]));
  return (
    <div class="cure">
      <b>What would help</b> <Says text={sentence} />{" "}
      <button type="button" class="link" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        {isOpen ? "less" : "what to type"}
      </button>
      {isOpen && (
        <>
          {changes.filter((change) => CONFIGURED.includes(change.kind)).map((change) => <Configured key={change.kind + change.object} of={change} />)}
          {isConfigured && <Text about="With these commands" text={takes(shown, all)} />}
          {[...others].map(([text, isCure]) => <Text key={text} about={isCure ? "Do it with" : "See it with"} text={text} />)}
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
  const edit = editOf(change, now);
  return (
    <>
      <Text about={<>In the queue configuration, at <QueueLink path={lines.queue} />, <Says text={lines.place} /></>} text={lines.lines} />
      {edit && <Try edit={edit} />}
    </>
  );
}

/** Answer of the check of a configuration. */
interface Verdict {
  allowed: boolean;
  reason?: string;
}

/** Button that has the service check its configuration with a change, and the answer. */
function Try({ edit }: { edit: Edit }) {
  const [answer, setAnswer] = useState<preact.ComponentChildren>(null);
  const attempt = () => {
    setAnswer("Checking …");
    const shown = partition.peek();
    void tried(edit, shown?.name ?? "", shown?.clusterId ?? "").then(setAnswer, (error: Error) => setAnswer(untried(error)));
  };
  return (
    <div class="try">
      <button type="button" class="link" onClick={attempt}>try it</button> <span class="quiet">without putting it in force</span>
      {answer && <div class="answer" role="status">{answer}</div>}
    </div>
  );
}

/** Why a change could not be checked. */
const untried = (error: Error) =>
  error instanceof ReadError && error.status === 403 ? "The token that was given may not read the configuration, so it cannot be checked here." : `It could not be checked: ${error.message}`;

async function tried(edit: Edit, of: string, rm: string): Promise<preact.ComponentChildren> {
  const text = await (await request(path("/ws/v1/config", { rm }))).text();
  const changed = edited(text, of, edit);
  if (!changed) return <>The configuration does not name <code>{edit.queue}</code>: the queue was made for an application, and has its limits from a template.</>;
  const verdict = (await (await request("/ws/v1/validate-conf", undefined, changed.after)).json()) as Verdict;
  const { out, in: added } = difference(changed.before, changed.after);
  return (
    <>
      {verdict.allowed ? <b>The service would accept it.</b> : <><b>The service would refuse it:</b> <Says text={verdict.reason} /></>}
      <pre>{[...out.map((line) => `- ${line}`), ...added.map((line) => `+ ${line}`)].join("\n")}</pre>
    </>
  );
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

/** The nearest queue, which the service names where one does not exist. */
const MEANT = /^(.*); did you mean `([^`]+)`\?(.*)$/s;

/** A reason of rejection, with what would have the application admitted. */
export function Rejection({ of: { applicationID: id, rejectedMessage = "", rejectedCure: cure } }: { of: Application }) {
  const message = rejection(rejectedMessage, id);
  const [, before, meant, after] = MEANT.exec(message) ?? [];
  return (
    <>
      {meant ? <><Says text={before} />; did you mean <QueueLink path={meant} />?<Says text={after} /></> : <Says text={message} />}
      {cure && <span class="quiet"> What would help: <Says text={cure} /></span>}
    </>
  );
}
