// Cures as texts to copy: lines of the queue configuration, and commands.
import type { Change, Resources } from "../rest/types";
import type { Edit } from "./config";
import { names } from "./amounts";

const SUFFIXES: [string, number][] = [["Ti", 2 ** 40], ["Gi", 2 ** 30], ["Mi", 2 ** 20], ["Ki", 2 ** 10]];

/** A quantity as the queue configuration has it. */
export function quantity(name: string, amount: number): string {
  if (name === "vcore") return amount % 1000 ? `${amount}m` : String(amount / 1000);
  const [suffix, factor] = SUFFIXES.find(([, factor]) => amount >= factor && amount % factor === 0) ?? ["", 1];
  return `${amount / factor}${suffix}`;
}

/** Amounts as the queue configuration has them: `{vcore: 4, memory: 16Gi}`. */
export const flow = (resources: Resources) => `{${names(resources).map((name) => `${name}: ${quantity(name, resources[name] ?? 0)}`).join(", ")}}`;

/** The user or group of an object such as `user ann in root.prod`. */
export function ownerOf(object: string): { kind: "user" | "group"; name: string; queue: string } | undefined {
  const [, kind, name, queue] = /^(user|group) (\S+) in (\S+)$/.exec(object) ?? [];
  return name && queue && (kind === "user" || kind === "group") ? { kind, name, queue } : undefined;
}

/** What the object of a change has now. */
export interface Now {
  most: Resources | undefined;
  applications: number | undefined;
}

/** A limit with the amounts of a change. A type that is unlimited stays so. */
function raised(most: Resources | undefined, by: Resources | undefined): Resources {
  return Object.fromEntries(Object.entries(most ?? {}).map(([name, now]) => [name, now + (by?.[name] ?? 0)]));
}

/** Changed lines of the queue configuration, and their place below a queue. */
interface Lines {
  queue: string;
  place: string;
  lines: string;
}

/** Lines of the queue configuration that make a change. */
export function linesOf({ kind, object = "", resource, count = 1 }: Change, now: Now): Lines | undefined {
  const owner = ownerOf(object);
  const applications = now.applications === undefined ? undefined : `maxapplications: ${now.applications + count}`;
  if (kind === "quota" && now.most) return { queue: object, place: "below `resources`, in place of its `max`", lines: `max: ${flow(raised(now.most, resource))}` };
  if (kind === "runningApplications" && !owner && applications) return { queue: object, place: "in place of its `maxapplications`", lines: applications };
  const limit = kind === "userLimit" && now.most ? `maxresources: ${flow(raised(now.most, resource))}` : kind === "runningApplications" ? applications : undefined;
  if (!owner || !limit) return undefined;
  const place = `first below \`limits\`; if a limit of ${owner.kind} \`${owner.name}\` alone is there, only the last line, in it`;
  return { queue: owner.queue, place, lines: `- limit: of ${owner.name}\n  ${owner.kind}s: [${JSON.stringify(owner.name)}]\n  ${limit}` };
}

/** The same change in a whole configuration. */
export function editOf(change: Change, now: Now): Edit | undefined {
  const { kind, object = "", resource, count = 1 } = change;
  if (!linesOf(change, now)) return undefined;
  const owner = ownerOf(object);
  const queue = owner?.queue ?? object;
  const of = owner && { owner: { kind: owner.kind, name: owner.name } };
  if (kind === "runningApplications") return { queue, keys: ["maxapplications"], lines: [String((now.applications ?? 0) + count)], ...of };
  const most = raised(now.most, resource);
  // Written as the service writes them, so that lines that stay the same are no difference.
  const written = (text: string) => (/^\d+$/.test(text) ? JSON.stringify(text) : text);
  const lines = Object.keys(most).sort().map((name) => `${name}: ${written(quantity(name, most[name] ?? 0))}`);
  return { queue, keys: owner ? ["maxresources"] : ["resources", "max"], lines, ...of };
}

/** A name as one word of a shell. */
export const word = (name: string) => (/^[\w.:/@%+=-]+$/.test(name) ? name : `'${name.replaceAll("'", "'\\''")}'`);

/** A partition and its resource manager. */
interface Target {
  clusterId: string;
  name: string;
}

/** The flag that selects a resource manager, where there are several. */
const managerOf = (shown: Target | undefined, all: Target[] = []) =>
  shown && all.some((one) => one.clusterId !== shown.clusterId) ? ` --rm ${word(shown.clusterId)}` : "";

/** A command about the partition on display: with its resource manager if there are several, and with its name if that is not the default. */
export function aimed(command: string, shown: Target | undefined, all: Target[] | undefined): string {
  const partition = shown && shown.name !== "default" ? ` --partition ${word(shown.name)}` : "";
  return command + managerOf(shown, all) + partition;
}

/** Commands that take changed lines into use. A configuration is that of a resource manager. */
export function takes(shown: Target | undefined, all: Target[] | undefined): string {
  const manager = managerOf(shown, all);
  return `monoceros config get${manager} > queues.yaml\n# change the lines, then\nmonoceros validate queues.yaml && monoceros config set queues.yaml${manager}`;
}

/** The command about a change that is none of the configuration, and whether it makes the change. */
export function commandOf({ kind, object, node }: Change, application: string): { text: string; isCure: boolean } {
  const closed = node ?? object;
  if (kind === "openNode" && closed) return { text: `monoceros uncordon ${word(closed)}`, isCure: true };
  const shows = (text: string) => ({ text: `monoceros ${text}`, isCure: false });
  if (kind === "nodeRoom" && object) return shows(`describe node ${word(object)}`);
  if (kind === "node") return shows("get nodes");
  if (kind === "gangMembers") return shows(`describe app ${word(application)}`);
  return shows(`explain ${word(application)}`);
}
